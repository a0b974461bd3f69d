// Package healthcheck checks whether a started agent works: it sent READY=1, answers over HTTP or TCP, passes a program
// of its image, or just stays up.
//
// Guarantees:
//
//  1. Await returns nil only when the check passed and the agent then stayed up, and kept passing, for the whole soak.
//  2. Every wait ends: with the agent's exit, the time-out, or the context.
//  3. An HTTP check follows no redirect, keeps no connection and reads no body.
//  4. An HTTP or TCP check passes only when the caller says that what answered is the agent's.
//  5. The process group of a checking program, and what left the group, ends with the try, and is killed with the
//     executor; 1 KiB of its output is kept.
package healthcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// The values that apply when a manifest sets none (image.proto, Ready).
const (
	DefaultTimeout = 30 * time.Second
	DefaultSoak    = time.Second
)

const (
	every  = 100 * time.Millisecond // between two tries while waiting
	within = 2 * time.Second        // for one try
)

// Spec is a health check. At most one of Ready, HTTP, TCP and Exec is set.
type Spec struct {
	Ready         <-chan struct{} // closed when the agent sent READY=1
	HTTP, TCP     string
	Exec          *Exec
	Timeout, Soak time.Duration // 0 means the default

	// Owned returns an error when the address that answered an HTTP or TCP check is not the agent's. Nil accepts all.
	Owned func(at netip.AddrPort) error
}

// Await waits until the agent works, and then through the soak. exited is closed when its process ends. The error
// carries a refusal with the code of the failure.
func Await(ctx context.Context, s Spec, exited <-chan struct{}) error {
	s.Timeout, s.Soak = cmp.Or(s.Timeout, DefaultTimeout), cmp.Or(s.Soak, DefaultSoak)
	if err := s.waitReady(ctx, exited); err != nil {
		return err
	}
	return s.soak(ctx, exited)
}

var errSilent = errors.New("no READY=1 came")

func (s Spec) waitReady(ctx context.Context, exited <-chan struct{}) error {
	if s.Ready == nil && !s.Polled() {
		return nil // staying up is enough
	}
	limit, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := errSilent
	for first := true; ; first = false {
		if s.Ready == nil {
			err := s.whileUp(limit, exited)
			if err == nil {
				return nil
			}
			if first || !over(limit) { // a try that the time-out cut short says less than the one before
				last = err
			}
		}
		select {
		case <-s.Ready:
			return nil
		case <-exited:
			return fault.Refusef(fault.Unavailable, code.Exited, "it ended before it was ready")
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fault.Refusef(fault.Unavailable, code.NotReady, "it was not ready within %s: %v", s.Timeout, last)
		case <-tick.C:
		}
	}
}

// over reports whether the time of a context is over, also before its timer has run.
func over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}

// soak checks the agent during the soak and once more at its end.
func (s Spec) soak(ctx context.Context, exited <-chan struct{}) error {
	end := time.NewTimer(s.Soak)
	defer end.Stop()
	tick := time.NewTicker(max(s.Soak/5, every))
	defer tick.Stop()
	for {
		select {
		case <-exited:
			return s.exitedInSoak()
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return s.stillPasses(ctx, exited)
		case <-tick.C:
			if err := s.stillPasses(ctx, exited); err != nil {
				return err
			}
		}
	}
}

func (s Spec) exitedInSoak() error {
	return fault.Refusef(fault.Unavailable, code.Exited, "it ended within %s after it was ready", s.Soak)
}

func (s Spec) stillPasses(ctx context.Context, exited <-chan struct{}) error {
	if !s.Polled() {
		return nil
	}
	err := s.whileUp(ctx, exited)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-exited:
		return s.exitedInSoak()
	default:
	}
	if err != nil {
		return fault.Refusef(fault.Unavailable, code.Unstable, "it was ready, and then its probe failed: %v", err)
	}
	return nil
}

// whileUp tries once, at most until the agent ends.
func (s Spec) whileUp(ctx context.Context, exited <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.Once(ctx)
}

// Polled reports whether the check asks something that answers at any time, unlike READY=1.
func (s Spec) Polled() bool { return s.HTTP != "" || s.TCP != "" || s.Exec != nil }

// Name names the check; it is empty for READY=1 and for staying up. Specs of one name check the same thing.
func (s Spec) Name() string {
	switch {
	case s.HTTP != "":
		return s.HTTP
	case s.TCP != "":
		return "tcp " + s.TCP
	case s.Exec != nil:
		return strings.Join(append([]string{"exec", filepath.Base(s.Exec.Path)}, s.Exec.Args...), " ")
	}
	return ""
}

// Once tries an HTTP, TCP or Exec check one time. Any other spec passes.
func (s Spec) Once(ctx context.Context) error {
	limit := within
	if s.Exec != nil {
		limit = execWithin
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch {
	case s.Exec != nil:
		return s.Exec.Run(ctx)
	case s.HTTP != "":
		return s.get(ctx, s.HTTP)
	case s.TCP != "":
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.TCP)
		if err != nil {
			return err
		}
		at := conn.RemoteAddr()
		_ = conn.Close()
		return s.owned(at)
	}
	return nil
}

// owned returns an error when what answered at an address is not the agent.
func (s Spec) owned(at net.Addr) error {
	tcp, ok := at.(*net.TCPAddr)
	if s.Owned == nil || !ok {
		return nil
	}
	return answered(s.Owned(tcp.AddrPort()))
}

// Address returns HOST:PORT of an HTTP or TCP check; empty for any other.
func (s Spec) Address() string {
	if s.HTTP == "" {
		return s.TCP
	}
	u, err := url.Parse(s.HTTP)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // a name that net knows
	}
	return net.JoinHostPort(u.Hostname(), port)
}

var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (s Spec) get(ctx context.Context, url string) error {
	var at net.Addr
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { at = c.Conn.RemoteAddr() },
	})
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := client.Do(q)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	if err := s.owned(at); err != nil {
		return err
	}
	if r.StatusCode < 200 || r.StatusCode > 399 {
		return answered(fmt.Errorf("%s answered %s", url, r.Status))
	}
	return nil
}

// answer is the error of a probe that got an answer, and not a good one.
type answer struct{ error }

func (a answer) Unwrap() error { return a.error }

// answered marks an error as an answer.
func answered(err error) error {
	if err == nil {
		return nil
	}
	return answer{err}
}

// Silent reports whether a probe failed because nothing answered it: no connection, or nothing in time. An agent that
// says that it cannot work does answer, and a name that cannot be looked up says nothing about the agent.
func Silent(err error) bool {
	var name *net.DNSError
	return err != nil && !errors.As(err, new(answer)) && !errors.As(err, &name)
}
