package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// The codes of what an agent did not do.
const (
	CodeNotReady = "NOT_READY" // the probe did not pass in time
	CodeExited   = "EXITED"    // it ended before it was proven
	CodeUnstable = "UNSTABLE"  // the probe passed, and then failed within the soak
)

// What a manifest leaves out (image.proto, Ready).
const (
	DefaultTimeout = 30 * time.Second
	DefaultSoak    = time.Second
)

const (
	every  = 100 * time.Millisecond // between two tries while waiting
	within = 2 * time.Second        // for one try
)

// Spec is how it is known that an agent works. At most one of Notify, HTTP and TCP is set.
type Spec struct {
	Notify        *Notify
	HTTP, TCP     string
	Timeout, Soak time.Duration // 0 means the default
}

// Prove waits until the agent works and stays up. exited is closed when its process ends.
func Prove(ctx context.Context, s Spec, exited <-chan struct{}) error {
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.Soak == 0 {
		s.Soak = DefaultSoak
	}
	if err := s.waitReady(ctx, exited); err != nil {
		return err
	}
	return s.soak(ctx, exited)
}

func (s Spec) waitReady(ctx context.Context, exited <-chan struct{}) error {
	if s.Notify == nil && !s.polled() {
		return nil // staying up is enough
	}
	limit, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := fmt.Errorf("no READY=1 came")
	for {
		var ready <-chan struct{}
		if s.Notify != nil {
			ready = s.Notify.Ready()
		} else if last = s.Once(limit); last == nil {
			return nil
		}
		select {
		case <-ready:
			return nil
		case <-exited:
			return refuse(CodeExited, "it ended before it was ready")
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return refuse(CodeNotReady, "it was not ready within %s: %v", s.Timeout, last)
		case <-tick.C:
		}
	}
}

// soak watches for the soak; near its end the probe must pass once more.
func (s Spec) soak(ctx context.Context, exited <-chan struct{}) error {
	end := time.NewTimer(s.Soak)
	defer end.Stop()
	tick := time.NewTicker(max(s.Soak/5, every))
	defer tick.Stop()
	for {
		select {
		case <-exited:
			return refuse(CodeExited, "it ended within %s after it was ready", s.Soak)
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return s.stillPasses(ctx)
		case <-tick.C:
			if err := s.stillPasses(ctx); err != nil {
				return err
			}
		}
	}
}

func (s Spec) stillPasses(ctx context.Context) error {
	if !s.polled() {
		return nil
	}
	if err := s.Once(ctx); err != nil && ctx.Err() == nil {
		return refuse(CodeUnstable, "it was ready, and then its probe failed: %v", err)
	}
	return ctx.Err()
}

func (s Spec) polled() bool { return s.HTTP != "" || s.TCP != "" }

// Once tries an HTTP or TCP probe one time; without one it passes.
func (s Spec) Once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	switch {
	case s.HTTP != "":
		return get(ctx, s.HTTP)
	case s.TCP != "":
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.TCP)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	return nil
}

var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func get(ctx context.Context, url string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := client.Do(q)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	if r.StatusCode < 200 || r.StatusCode > 399 {
		return fmt.Errorf("%s answered %s", url, r.Status)
	}
	return nil
}

func refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Unavailable, &apiv1.Refusal{Code: code, Message: fmt.Sprintf(format, args...)})
}
