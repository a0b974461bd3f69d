package bus

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
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
