package bustest

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// systemAccount is the account in which servers replicate streams. They keep connections of their own for it.
	systemAccount = "$SYS"
	// greetingBytes bounds what a server sends before the name of the account that its connection is for.
	greetingBytes = 16 << 10
	// heldChunks bounds what a relay holds; a sender waits behind it.
	heldChunks = 4096
)

// lag is what the connections between the servers of a cluster pass through. It delays what one server receives of
// the replication of streams, and nothing else: a message from a client in another account is not held back.
type lag struct{ held atomic.Pointer[heldBack] }

type heldBack struct {
	server string
	by     time.Duration
}

// until returns when something that came for a server just now is due there.
func (l *lag) until(server string, now time.Time) time.Time {
	if h := l.held.Load(); h != nil && h.server == server {
		return now.Add(h.by)
	}
	return now
}

// relay passes connections to the listener of a server on, until the test ends, and returns where it listens.
func (l *lag) relay(t testing.TB, name, address string) string {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	go func() {
		for {
			from, err := in.Accept()
			if err != nil {
				return
			}
			go l.pass(from, name, address)
		}
	}()
	return in.Addr().String()
}

// pass connects a server that dialed with the one that it meant.
func (l *lag) pass(from net.Conn, name, address string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	back := make(chan string, 1) // the name of the server that dialed, or "" for a connection that is not held back
	go func() {
		defer func() { _ = from.Close() }()
		l.copyHeld(from, to, back)
	}()
	greeting, dialed, replicates := greet(from)
	if _, err := to.Write(greeting); err != nil || !replicates {
		dialed, name = "", ""
	}
	back <- dialed
	forth := make(chan string, 1)
	forth <- name
	l.copyHeld(to, from, forth)
}

// greet reads until a server has said who it is and what its connection is for.
func greet(from io.Reader) (greeting []byte, name string, replicates bool) {
	part := make([]byte, 4096)
	for len(greeting) < greetingBytes {
		n, err := from.Read(part)
		greeting = append(greeting, part[:n]...)
		if _, after, ok := bytes.Cut(greeting, []byte("INFO ")); ok {
			if line, _, whole := bytes.Cut(after, []byte("\r\n")); whole {
				var info struct {
					Server  string `json:"server_name"`
					Account string `json:"route_account"`
				}
				_ = json.Unmarshal(line, &info) // what cannot be read is not held back
				return greeting, info.Server, info.Account == systemAccount
			}
		}
		if err != nil {
			break
		}
	}
	return greeting, "", false
}

type chunk struct {
	data []byte
	due  time.Time
}

// copyHeld copies what comes, each part when it is due at the server that who names.
func (l *lag) copyHeld(to io.Writer, from io.Reader, who <-chan string) {
	held := make(chan chunk, heldChunks)
	go func() {
		defer close(held)
		name := ""
		for {
			part := make([]byte, 32<<10)
			n, err := from.Read(part)
			select {
			case name = <-who:
			default:
			}
			if n > 0 {
				held <- chunk{part[:n], l.until(name, time.Now())}
			}
			if err != nil {
				return
			}
		}
	}()
	failed := false
	for c := range held {
		time.Sleep(time.Until(c.due))
		if !failed {
			_, err := to.Write(c.data)
			failed = err != nil // what comes still is read, so that the reader ends
		}
	}
}
