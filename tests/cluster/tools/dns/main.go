// Dns answers for the names of the cluster's Services, as Kubernetes' DNS specification has it, and says at once that
// there are no others: the test cluster reaches no network. Usage: dns KUBECONFIG ADDRESS:PORT
package main

import (
	"context"
	"log"
	"net"
	"os"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Short, for tests change what the names mean.
const timeToLive = 2

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: dns KUBECONFIG ADDRESS:PORT")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 10*time.Minute)
	names := newNames(factory)
	forever := context.Background().Done()
	factory.Start(forever)
	factory.WaitForCacheSync(forever)
	connection, err := net.ListenPacket("udp", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("answering on %s", os.Args[2])
	serve(connection, names.resolve)
}

// serve answers one query after the other; each is answered from memory.
func serve(connection net.PacketConn, resolve func(string) ([]net.IP, bool)) {
	buffer := make([]byte, 4096)
	for {
		size, from, err := connection.ReadFrom(buffer)
		if err != nil {
			log.Fatal(err)
		}
		if reply, err := answer(buffer[:size], resolve); err == nil {
			connection.WriteTo(reply, from)
		}
	}
}

// answer builds the reply to a query; an error means that it was none.
func answer(query []byte, resolve func(string) ([]net.IP, bool)) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	addresses, known := resolve(question.Name.String())
	reply := dnsmessage.Header{
		ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
	}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	message := dnsmessage.Message{Header: reply, Questions: []dnsmessage.Question{question}}
	for _, address := range addresses {
		if v4 := address.To4(); v4 != nil && question.Type == dnsmessage.TypeA {
			message.Answers = append(message.Answers, record(question.Name, [4]byte(v4)))
		}
	}
	return message.Pack()
}

func record(name dnsmessage.Name, address [4]byte) dnsmessage.Resource {
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: timeToLive},
		Body:   &dnsmessage.AResource{A: address},
	}
}
