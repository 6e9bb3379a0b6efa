package postgres

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pools are those that are open, by their URL. They are global because queues
// that know nothing of each other share them: a process has few connections,
// however many flows there are in its database.
var pools = struct {
	sync.Mutex
	open map[string]*pool
}{open: map[string]*pool{}}

// pool is what the queues of one URL share.
type pool struct {
	*pgxpool.Pool
	url   string
	users int // guarded by pools

	// migrating is held by whoever looks at the schema; ready tells that it was
	// found to be this version's.
	migrating chan struct{}
	ready     bool
}

// Settings of a session, unless the URL has others.
var session = map[string]string{
	"application_name": "workpull",
	// What is acknowledged is on the disk, and on the standby where there is a
	// synchronous one, whatever the server's or the role's default is.
	"synchronous_commit":            "on",
	"default_transaction_isolation": "read committed",
	"jit":                           "off",
	// An operation comes back by its context; these are for a client that is
	// gone. A minute is longer than any operation but a load, which sets its own.
	"statement_timeout":                   "60s",
	"lock_timeout":                        "30s",
	"idle_in_transaction_session_timeout": "30s",
	"client_connection_check_interval":    "5s",
	"tcp_keepalives_idle":                 "15",
	"tcp_keepalives_interval":             "5",
	"tcp_keepalives_count":                "3",
	"tcp_user_timeout":                    "30s",
}

const (
	// connectTimeout of each host, unless the URL has another.
	connectTimeout = 5 * time.Second
	// silence after which a connection counts as dead.
	silence = 30 * time.Second
)

// doubt is set on a connection whose server said that a commit may not be on
// the standby.
const doubt = "workpull: a commit was not replicated"

// warning is the code of that message, which has none of its own, and whose
// text is in the language of the server. Nothing else here warns.
const warning = "01000"

// configure reads a URL. Its errors show no password.
func configure(url string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The cause quotes the URL, and hides passwords as far as it finds them.
		return nil, fmt.Errorf("%w: the URL, its parameters or the files that it names cannot be read", ErrAddress)
	}
	for _, name := range slices.Sorted(maps.Keys(session)) {
		if _, given := c.ConnConfig.RuntimeParams[name]; !given {
			c.ConnConfig.RuntimeParams[name] = session[name]
		}
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         limitSilence,
	}
	c.ConnConfig.DialFunc = dialer.DialContext
	c.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == warning {
			conn.CustomData()[doubt] = true
		}
	}
	return c, nil
}

// use returns the pool of the URL, which is opened if need be. It connects to
// nothing yet.
func use(url string) (*pool, error) {
	pools.Lock()
	defer pools.Unlock()
	p := pools.open[url]
	if p == nil {
		c, err := configure(url)
		if err != nil {
			return nil, err
		}
		opened, err := pgxpool.NewWithConfig(context.Background(), c)
		if err != nil {
			return nil, fmt.Errorf("open the pool of connections: %w", err)
		}
		p = &pool{Pool: opened, url: url, migrating: make(chan struct{}, 1)}
		pools.open[url] = p
	}
	p.users++
	return p, nil
}

// release gives the pool up, and closes it after its last user.
func (p *pool) release() {
	pools.Lock()
	p.users--
	last := p.users == 0
	if last {
		delete(pools.open, p.url)
	}
	pools.Unlock()
	if last {
		p.Close()
	}
}

// prepare migrates the schema, once.
func (p *pool) prepare(ctx context.Context) error {
	select {
	case p.migrating <- struct{}{}:
		defer func() { <-p.migrating }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.ready {
		return nil
	}
	conn, err := p.Acquire(ctx)
	if err != nil {
		return unsent{err}
	}
	defer conn.Release()
	if err := migrate(ctx, conn.Conn(), migrations()); err != nil {
		return err
	}
	p.ready = true
	return nil
}

// connections of the queue, opened when they are first asked for.
func (q *Queue) connections() (*pool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, ErrClosed
	case q.address.bad != nil:
		return nil, q.address.bad
	case q.address.flow == "": // the zero value
		return nil, fmt.Errorf("%w: the flow has no name", ErrAddress)
	case q.pool != nil:
		return q.pool, nil
	}
	p, err := use(q.address.url())
	q.pool = p
	return p, err
}
