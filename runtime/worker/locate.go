package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/workpull"
)

// locator finds the address of the producer's node. It asks anew each time:
// the pod changes, and GoAkt compares addresses as strings, so that it is the
// pod's own and never a Service's (part 5, trap 7).
type locator struct {
	system   actor.ActorSystem
	host     string // a name or an address; empty: ask the cluster's registry
	port     int
	endpoint string
	lookup   func(ctx context.Context, host string) ([]string, error)
}

func newLocator(system actor.ActorSystem, s *Settings) *locator {
	return &locator{
		system: system, host: s.ProducerHost, port: s.ProducerPort, endpoint: s.Endpoint(),
		lookup: net.DefaultResolver.LookupHost,
	}
}

// find has the signature that workpull.WithReliableRemoteProducerFunc wants.
func (l *locator) find(ctx context.Context) (string, int, error) {
	host, err := l.findHost(ctx)
	return host, l.port, err
}

func (l *locator) findHost(ctx context.Context) (string, error) {
	if l.host == "" {
		return l.registered(ctx)
	}
	if _, err := netip.ParseAddr(l.host); err == nil {
		return l.host, nil
	}
	addresses, err := l.lookup(ctx, l.host)
	switch {
	case err != nil:
		return "", fmt.Errorf("resolve the producer's name %s: %w", l.host, err)
	case len(addresses) == 1:
		return addresses[0], nil
	}
	return l.choose(ctx, addresses)
}

// registered asks the cluster's registry.
func (l *locator) registered(ctx context.Context) (string, error) {
	address, err := l.system.RemoteActor(ctx, l.endpoint)
	if err != nil {
		return "", fmt.Errorf("find producer %s in the cluster: %w", l.endpoint, err)
	}
	return address.Host(), nil
}

// choose asks all addresses at once which of them hosts the producer: a pod
// that terminates, or a standby, does not.
func (l *locator) choose(ctx context.Context, addresses []string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(addresses))
	found := make(chan string, len(addresses))
	for _, address := range addresses {
		go func() {
			err := workpull.Locate(ctx, l.system, address, l.port, l.endpoint)
			if err == nil {
				found <- address
			}
			answers <- err
		}()
	}
	errs := []error{fmt.Errorf("none of the %d addresses of %s hosts the producer", len(addresses), l.host)}
	for range addresses {
		if err := <-answers; err != nil {
			errs = append(errs, err)
			continue
		}
		return <-found, nil
	}
	return "", errors.Join(errs...)
}
