package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// address is where a flow lies.
type address struct {
	// public is the URL without its password, which is all that leaves the
	// process; whole is the URL as it was given.
	public, whole string
	flow          string
	bad           error // why it cannot be used
}

// maxFlow is the longest name of a flow, in bytes.
const maxFlow = 255

// passwords are the URLs of this process that have a password, by the URL
// without it. They are global because a queue that is made of bytes has nothing
// else to find its password by. There are as many as there are databases.
var passwords sync.Map

// port ends a host, which may be an IPv6 address in brackets.
var port = regexp.MustCompile(`^(\[[^]]*\]|[^:\[]*)(:[0-9]*)?$`)

// secret are the parameters of a URL that are left out of what travels.
var secret = []string{"password", "sslpassword"}

func newAddress(whole, flow string) address {
	a := address{whole: whole, flow: flow}
	refuse := func(reason string) address {
		a.bad = fmt.Errorf("%w: %s", ErrAddress, reason)
		return a
	}
	switch {
	case flow == "":
		return refuse("the flow has no name")
	case len(flow) > maxFlow:
		return refuse(fmt.Sprintf("the name of the flow has %d bytes, wanted at most %d", len(flow), maxFlow))
	case !utf8.ValidString(flow) || strings.ContainsRune(flow, 0):
		return refuse("the name of the flow is no UTF-8 without NUL")
	}
	var reason string
	if a.public, reason = withoutPassword(whole); reason != "" {
		return refuse(reason)
	}
	return a
}

// withoutPassword returns a URL that no password is in. What cannot be read is
// refused, with a reason that quotes nothing of it.
func withoutPassword(whole string) (public, reason string) {
	if !strings.HasPrefix(whole, "postgres://") && !strings.HasPrefix(whole, "postgresql://") {
		return "", "the URL does not begin with postgres:// or postgresql://"
	}
	scheme, rest, _ := strings.Cut(whole, "://")
	user := ""
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' { // as libpq finds it
		user, rest = rest[:i], rest[i+1:]
	}
	// An @ that is left is what a password with a slash leaves behind.
	if strings.ContainsAny(rest, "@#") {
		return "", "the URL has an @ or # that is not escaped"
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, hasPath := strings.Cut(rest, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if !port.MatchString(host) {
			return "", "a port of the URL is no number"
		}
	}
	var b strings.Builder
	b.WriteString(scheme + "://")
	if name, _, _ := strings.Cut(user, ":"); name != "" {
		b.WriteString(name + "@")
	}
	b.WriteString(hosts)
	if hasPath {
		b.WriteString("/" + path)
	}
	separator := "?"
	for pair := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		name, err := url.PathUnescape(key)
		if err != nil {
			return "", "the parameters of the URL cannot be read"
		}
		if pair != "" && !slices.Contains(secret, name) {
			b.WriteString(separator + pair)
			separator = "&"
		}
	}
	return b.String(), ""
}

// remember keeps the password for queues that come back without it.
func (a address) remember() {
	if a.bad == nil && a.whole != a.public {
		passwords.Store(a.public, a.whole)
	}
}

// url is what to connect to.
func (a address) url() string {
	if whole, ok := passwords.Load(a.public); ok && a.whole == "" {
		return whole.(string)
	}
	if a.whole == "" {
		return a.public
	}
	return a.whole
}

// magic begins the serialized form; travelling as JSON follows.
const magic = "workpull postgres queue 1\n"

type travelling struct {
	URL        string `json:"url"`
	Flow       string `json:"flow"`
	LoadBudget int64  `json:"loadBudget"`
}

// MarshalBinary returns the URL without its password, the flow and the options,
// and nothing of what is stored (rule 72).
func (q *Queue) MarshalBinary() ([]byte, error) {
	if q.address.bad != nil {
		return nil, q.address.bad
	}
	data, err := json.Marshal(travelling{q.address.public, q.address.flow, q.budget})
	if err != nil {
		return nil, fmt.Errorf("write the address of flow %q: %w", q.address.flow, err)
	}
	return append([]byte(magic), data...), nil
}

// UnmarshalBinary makes q a writer of the flow that the bytes name, and opens
// nothing. The error is ErrNotPostgres for any other bytes, and ErrAddress for
// an address that cannot be used; q stays what it was. So it does after it was
// used.
func (q *Queue) UnmarshalBinary(data []byte) error {
	body, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return fmt.Errorf("read %d bytes: %w", len(data), ErrNotPostgres)
	}
	var t travelling
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil || int(d.InputOffset()) != len(body) || t.LoadBudget < 0 {
		return fmt.Errorf("read %d bytes: %w", len(data), ErrNotPostgres)
	}
	a := newAddress(t.URL, t.Flow)
	if a.bad != nil {
		return a.bad
	}
	a.whole = ""
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pool != nil || q.closed {
		return fmt.Errorf("read the address of a queue that is in use: %w", ErrAddress)
	}
	q.address, q.budget = a, t.LoadBudget
	return nil
}
