package bus

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// slowAtFirst is a bus that pings its first clients before they are logged in, as a busy one does.
func slowAtFirst(t *testing.T, slow int32) (url string, logins *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	logins = new(atomic.Int32)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go logIn(conn, logins.Add(1) <= slow)
		}
	}()
	return "nats://" + l.Addr().String(), logins
}

func logIn(conn net.Conn, slow bool) {
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(conn, "INFO {\"max_payload\":1048576,\"headers\":true}\r\n")
	for in := bufio.NewScanner(conn); in.Scan(); {
		if strings.HasPrefix(in.Text(), "PING") {
			if slow {
				_, _ = fmt.Fprint(conn, "PING\r\n")
			}
			_, _ = fmt.Fprint(conn, "PONG\r\n")
		}
	}
}

func TestALoginThatTakesTheBusLongIsTriedAgain(t *testing.T) {
	t.Parallel()
	url, logins := slowAtFirst(t, connectTries-1)
	c, err := Dial(Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if n := logins.Load(); n != connectTries {
		t.Errorf("%d logins, want %d", n, connectTries)
	}
}

func TestLoginsThatTakeTheBusLongAreTriedAFewTimes(t *testing.T) {
	t.Parallel()
	url, logins := slowAtFirst(t, 1000)
	if _, err := Dial(Options{URL: url}); err == nil || !strings.Contains(err.Error(), pingBeforePong) {
		t.Errorf("dial: %v", err)
	}
	if n := logins.Load(); n != connectTries {
		t.Errorf("%d logins, want %d", n, connectTries)
	}
}

func TestALoginThatIsRefusedIsDenied(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"the client's error":             {nats.ErrAuthorization, fault.Denied},
		"a server's text for an old JWT": {errors.New("nats: User Authentication Expired"), fault.Denied},
		"no server there":                {nats.ErrNoServers, fault.Unavailable},
	} {
		t.Run(text, func(t *testing.T) {
			if got := fault.KindOf(connectError("nats://bus", c.err)); got != c.want {
				t.Errorf("kind %v, want %v", got, c.want)
			}
		})
	}
}

// A client of several servers has others to go to, and leaves one that stands still sooner.
func TestAClientOfSeveralServersPingsMoreOften(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]time.Duration{
		"nats://127.0.0.1:1":                    topology.PingEvery,
		"nats://127.0.0.1:1,nats://127.0.0.2:1": topology.PingEveryOfSeveral,
	} {
		c, err := Dial(Options{URL: url, Name: "x", Persist: true, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if got := c.nc.Opts.PingInterval; got != want {
			t.Errorf("%s: a ping every %v, want %v", url, got, want)
		}
	}
}
