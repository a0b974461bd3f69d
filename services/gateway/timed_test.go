package gateway

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// serve serves a handler behind timed.
func serve(t *testing.T, http2 bool, within time.Duration, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(timed(within, h))
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// The catalog may take 40 s to activate an image, and the gateway writes nothing meanwhile.
func TestAnAnswerMayTakeLongerThanOneWrite(t *testing.T) {
	t.Parallel()
	const within = time.Second
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2, within, func(w http.ResponseWriter, r *http.Request) {
				for range 2 {
					select {
					case <-r.Context().Done():
						t.Error("the request ended before its answer")
					case <-time.After(2 * within):
					}
					_, _ = io.WriteString(w, "part ")
				}
			})
			for range 2 { // the second on the same connection
				r, err := s.Client().Get(s.URL)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(r.Body)
				if _ = r.Body.Close(); err != nil || string(body) != "part part " {
					t.Errorf("the answer is %q (%v)", body, err)
				}
			}
		})
	}
}

func TestAClientThatStopsReadingEndsItsRequest(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := serve(t, false, 100*time.Millisecond, func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 64<<10)
		for {
			if _, err := w.Write(part); err != nil {
				ended <- err
				return
			}
		}
	})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("a client that reads nothing holds its request for a minute")
	}
}
