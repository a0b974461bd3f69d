package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
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

// Spec is how it is known that an agent works. At most one of Ready, HTTP, TCP and Exec is set.
type Spec struct {
	Ready         <-chan struct{} // closed when it said that it is ready
	HTTP, TCP     string
	Exec          *Exec
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

var errSilent = errors.New("no READY=1 came")

func (s Spec) waitReady(ctx context.Context, exited <-chan struct{}) error {
	if s.Ready == nil && !s.polled() {
		return nil // staying up is enough
	}
	limit, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last error
	for {
		if s.Ready != nil {
			last = errSilent
		} else if err := s.whileUp(limit, exited); err == nil {
			return nil
		} else if last == nil || limit.Err() == nil { // one that the time-out cut short says less than the one before
			last = err
		}
		select {
		case <-s.Ready:
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
			return s.stillPasses(ctx, exited)
		case <-tick.C:
			if err := s.stillPasses(ctx, exited); err != nil {
				return err
			}
		}
	}
}

func (s Spec) stillPasses(ctx context.Context, exited <-chan struct{}) error {
	if !s.polled() {
		return nil
	}
	err := s.whileUp(ctx, exited)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-exited:
		return refuse(CodeExited, "it ended within %s after it was ready", s.Soak)
	default:
	}
	if err != nil {
		return refuse(CodeUnstable, "it was ready, and then its probe failed: %v", err)
	}
	return nil
}

// whileUp tries once, and gives up when the agent ends meanwhile.
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

func (s Spec) polled() bool { return s.HTTP != "" || s.TCP != "" || s.Exec != nil }

// Name says what is probed, or is empty: two specs of one name probe the same thing.
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

// Once tries a probe one time, unless it is that the agent says READY=1; without one it passes.
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
