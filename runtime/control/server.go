package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/workpull/operator/runtime/control/controlpb"
)

const (
	// maxMessage bounds every message, both ways, in bytes.
	maxMessage = 4 << 20
	// pingInterval and pingTimeout are how long a silent connection is believed
	// in, at both ends; minPing is how often a client may ask.
	pingInterval = 10 * time.Second
	pingTimeout  = 5 * time.Second
	minPing      = 5 * time.Second
	// farewell is how long calls under way get when the server stops.
	farewell = time.Second
	// maxStreams bounds the calls under way on one connection.
	maxStreams = 128
	// orderTimeout bounds a call for which the caller set no earlier deadline.
	orderTimeout = 5 * time.Second
)

// Serve serves the control service on a listener until ctx ends; it closes the
// listener, sends watchers away, and gives other calls under way a second. It
// returns nil then, and an error when it could not serve. Options are for
// credentials and interceptors.
func Serve(ctx context.Context, listener net.Listener, source Source, options ...grpc.ServerOption) error {
	defer listener.Close()
	s := &server{source: source, hub: newHub(source)}
	g := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(pingTimeout),
	}, options...)...)
	controlpb.RegisterControlServer(g, s)

	running, cancel := context.WithCancel(ctx)
	defer cancel()
	published := make(chan error, 1)
	go func() {
		err := s.hub.run(running)
		published <- err
		if err != nil {
			g.Stop()
		}
	}()
	go func() {
		<-running.Done()
		timer := time.AfterFunc(farewell, g.Stop)
		defer timer.Stop()
		g.GracefulStop()
	}()
	err := g.Serve(listener)
	cancel()
	if failure := <-published; failure != nil {
		return fmt.Errorf("serve the control service: %w", failure)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve the control service: %w", err)
	}
	g.GracefulStop() // waits for the calls, which farewell ends
	return nil
}

// server implements the service.
type server struct {
	controlpb.UnimplementedControlServer
	source Source
	hub    *hub
}

// Watch implements controlpb.ControlServer. Send returns once a message is on
// its way; until a slow reader has taken it, what is published meanwhile is
// skipped but for the last.
func (s *server) Watch(_ *controlpb.WatchRequest, stream grpc.ServerStreamingServer[controlpb.Update]) error {
	leave, err := s.hub.enter()
	switch {
	case errors.Is(err, errCrowded):
		return status.Error(codes.ResourceExhausted, err.Error())
	case err != nil:
		return status.Error(codes.Unavailable, err.Error())
	}
	defer leave()
	var base *publication // the last state that was sent
	var sent uint64
	for {
		p, next, err := s.hub.current()
		if err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		if p != nil && p.version != sent {
			if err := send(stream, base, p); err != nil {
				return err
			}
			if sent = p.version; p.snapshot != nil {
				base = p
			}
			continue // there may be a newer one by now
		}
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-next:
		}
	}
}

func send(stream grpc.ServerStreamingServer[controlpb.Update], base, p *publication) error {
	if p.snapshot == nil {
		return stream.Send(&controlpb.Update{Trouble: &p.trouble})
	}
	var from *Snapshot
	var version uint64
	if base != nil {
		from, version = base.snapshot, base.version
	}
	d := diff(from, p.snapshot)
	for u := range d.updates(p.version, version) {
		if err := stream.Send(u); err != nil {
			return err
		}
	}
	return nil
}
