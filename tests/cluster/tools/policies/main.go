// Policies enforces NetworkPolicies on the pods of one node, as kube-router does: its controller and nothing else of it,
// on the same versions as Kubernetes itself, so that the two share a build cache. Usage: policies KUBECONFIG NODE
package main

import (
	"context"
	"log"
	"os"
	"sync"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: policies KUBECONFIG NODE")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	forever := context.Background().Done()
	factory.Start(forever)
	factory.WaitForCacheSync(forever)

	settings := options.NewKubeRouterConfig()
	settings.EnableIPv4, settings.HostnameOverride = true, os.Args[2]
	tables, sets, err := netpol.NewIPTablesHandlers(settings)
	if err != nil {
		log.Fatal(err)
	}
	var changing sync.Mutex
	controller, err := netpol.NewNetworkPolicyController(
		client, settings, pods, policies, namespaces, &changing, tables, sets)
	if err != nil {
		log.Fatal(err)
	}
	listen(pods, controller.PodEventHandler)
	listen(namespaces, controller.NamespaceEventHandler)
	listen(policies, controller.NetworkPolicyEventHandler)
	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range beats { // nobody asks how it is
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	controller.Run(beats, forever, &running)
}

func listen(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
	if _, err := informer.AddEventHandler(handler); err != nil {
		log.Fatal(err)
	}
}
