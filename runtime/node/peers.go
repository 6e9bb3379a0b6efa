package node

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/workpull/operator/runtime/podenv"
)

// Labels by which members of a producer's cluster are found.
const (
	producerLabel   = "workpull.dev/producer"
	membershipLabel = "workpull.dev/membership"
	componentLabel  = "app.kubernetes.io/component"
	componentValue  = "producer"
)

// listTimeout bounds one question to the API server.
const listTimeout = 5 * time.Second

// Peer is a member of the producer's cluster, or a pod that may become one.
type Peer struct {
	// Gossip is the host:port of its gossip.
	Gossip string
	// Producer tells that it is one of the producer's own pods.
	Producer bool
}

// Peers lists the members that there may be, this node not among them.
type Peers interface {
	List(ctx context.Context) ([]Peer, error)
}

// StaticPeers are addresses from the settings, for use outside of Kubernetes.
// Any of them may be a producer's.
type StaticPeers []string

// List returns the addresses.
func (s StaticPeers) List(context.Context) ([]Peer, error) {
	peers := make([]Peer, 0, len(s))
	for _, address := range s {
		peers = append(peers, Peer{Gossip: address, Producer: true})
	}
	return peers, nil
}

// PodPeers finds members by the labels that the operator gives to their pods.
// Unlike GoAkt's provider it lists every pod with an address that is neither
// terminating nor finished, Ready or not: a producer that restarts must find
// the workers that live, and these are not Ready for just as long as they have
// no producer (docs/decisions/002-discovery.md).
type PodPeers struct {
	// Client of the API server.
	Client kubernetes.Interface
	// Namespace and Producer choose the cluster.
	Namespace, Producer string
	// Self is this pod's address, which is left out: a node that joins itself
	// takes that for success.
	Self string
	// GossipPort holds for pods that name no port "gossip".
	GossipPort int
	// WorkersOnly leaves the producer's own pods out. A producer that takes
	// over must not join the one that it takes over from, which may live, hold
	// the endpoint's name, and not know yet.
	WorkersOnly bool
}

// List asks the API server, within listTimeout.
func (p *PodPeers) List(ctx context.Context) ([]Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	selector := labels.Set{producerLabel: p.Producer, membershipLabel: podenv.MembershipMember}
	pods, err := p.Client.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("list the pods %s in namespace %s: %w", selector, p.Namespace, err)
	}
	peers := make([]Peer, 0, len(pods.Items))
	for i := range pods.Items {
		pod := &pods.Items[i]
		producer := pod.Labels[componentLabel] == componentValue
		if pod.Status.PodIP == p.Self || !mayBeMember(pod) || producer && p.WorkersOnly {
			continue
		}
		peers = append(peers, Peer{
			Gossip:   net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(p.port(pod))),
			Producer: producer,
		})
	}
	return peers, nil
}

func mayBeMember(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && pod.DeletionTimestamp == nil &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func (p *PodPeers) port(pod *corev1.Pod) int {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == podenv.GossipPortName {
				return int(port.ContainerPort)
			}
		}
	}
	return p.GossipPort
}
