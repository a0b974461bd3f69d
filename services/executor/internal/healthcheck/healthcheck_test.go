package healthcheck_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
)

const soak = 30 * time.Millisecond

func say(t *testing.T, path, what string) {
	t.Helper()
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(what)); err != nil {
		t.Fatal(err)
	}
}

func TestReadyIsFoundAmongOtherMessages(t *testing.T) {
	n, err := healthcheck.ListenNotify(filepath.Join(t.TempDir(), "notify"), -1)
	if err != nil {
		t.Fatal(err)
	}
	say(t, n.Path(), "STATUS=starting")
	say(t, n.Path(), "STATUS=there\nREADY=1\n")
	if err := healthcheck.Await(context.Background(), healthcheck.Spec{Ready: n.Ready(), Soak: soak}, nil); err != nil {
		t.Error(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(n.Path()); err == nil {
		t.Error("the socket is left")
	}
}

func TestALongPathGetsAShortSocketThatIsCleaned(t *testing.T) {
	n, err := healthcheck.ListenNotify(filepath.Join(t.TempDir(), strings.Repeat("long", 40)), os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Path()) > 107 {
		t.Errorf("%s is too long", n.Path())
	}
	say(t, n.Path(), "READY=1")
	<-n.Ready()
	_ = n.Close()
	if _, err := os.Lstat(filepath.Dir(n.Path())); err == nil {
		t.Error("the directory is left")
	}
}

func TestAFailedCheckHasACode(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	var calls atomic.Int32
	once := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) > 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer once.Close()
	for name, c := range map[string]struct {
		spec   healthcheck.Spec
		exited chan struct{}
		code   string
	}{
		"ended": {healthcheck.Spec{Soak: soak}, ended, code.Exited},
		"not ready": {
			healthcheck.Spec{TCP: "127.0.0.1:1", Timeout: 150 * time.Millisecond, Soak: soak}, nil,
			code.NotReady,
		},
		"only at once": {healthcheck.Spec{HTTP: once.URL, Soak: soak}, nil, code.Unstable},
	} {
		t.Run(name, func(t *testing.T) {
			err := healthcheck.Await(context.Background(), c.spec, c.exited)
			if got := fault.RefusalOf(err).GetCode(); got != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			}
		})
	}
}

func TestHTTPAndTCPProbesPass(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Redirect(w, &http.Request{}, "http://127.0.0.1:1/", http.StatusFound)
	}))
	defer s.Close()
	for _, p := range []healthcheck.Spec{{HTTP: s.URL, Soak: soak}, {TCP: s.Listener.Addr().String(), Soak: soak}} {
		if err := healthcheck.Await(context.Background(), p, nil); err != nil {
			t.Error(err)
		}
	}
}
