package main

import (
	"net"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

const domain = ".svc.cluster.local."

// names knows the Services and their endpoints, kept up to date by watches.
type names struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
}

func newNames(factory informers.SharedInformerFactory) *names {
	return &names{
		services: factory.Core().V1().Services().Lister(),
		slices:   factory.Discovery().V1().EndpointSlices().Lister(),
	}
}

// resolve returns a name's addresses, and whether there is such a name: SERVICE.NAMESPACE or HOST.SERVICE.NAMESPACE.
func (n *names) resolve(name string) ([]net.IP, bool) {
	inside, ok := strings.CutSuffix(strings.ToLower(name), domain)
	if !ok {
		return nil, false
	}
	parts := strings.Split(inside, ".")
	host := ""
	if len(parts) == 3 {
		host, parts = parts[0], parts[1:]
	}
	if len(parts) != 2 {
		return nil, false
	}
	service, err := n.services.Services(parts[1]).Get(parts[0])
	if err != nil {
		return nil, false
	}
	if service.Spec.ClusterIP != core.ClusterIPNone {
		return []net.IP{net.ParseIP(service.Spec.ClusterIP)}, host == ""
	}
	found := n.endpoints(service, host)
	return found, host == "" || len(found) > 0
}

// endpoints returns the addresses of a headless Service's pods, or of the one with this host name.
func (n *names) endpoints(service *core.Service, host string) []net.IP {
	selector := labels.SelectorFromSet(labels.Set{discovery.LabelServiceName: service.Name})
	slices, _ := n.slices.EndpointSlices(service.Namespace).List(selector)
	var found []net.IP
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
			named := host == "" || endpoint.Hostname != nil && *endpoint.Hostname == host
			if named && (ready || service.Spec.PublishNotReadyAddresses) {
				found = append(found, net.ParseIP(endpoint.Addresses[0]))
			}
		}
	}
	return found
}
