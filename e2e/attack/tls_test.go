package attack

import (
	"crypto/tls"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func init() {
	add(attack{
		name: "use a join token before its server", as: "the network",
		tried:   "a machine in between with a certificate of its own, and one that offers no TLS",
		stopped: "the fingerprint of the CA in the token",
		run: func(t *trial) string {
			for what, m := range t.machines() {
				_, token := t.guest()
				out, err := t.join(token, m.url())
				if err == nil || !strings.Contains(out, code.BusNotTrusted) || m.read.Load() != 0 {
					t.Errorf("%s: %v, %d bytes read: %s", what, err, m.read.Load(), out)
				}
				if out, err := t.join(token, token.URL); err != nil {
					t.Errorf("then the server itself: %v: %s", err, out)
				}
			}
			return "the executor sent nothing; the token is unused"
		},
	})
	add(attack{
		name: "change what a server reads and says", as: "the network",
		tried:   "a machine in between with a certificate of its own, and one that offers no TLS",
		stopped: "the CA that the server got at its join",
		run: func(t *trial) string {
			for what, m := range t.machines() {
				s := t.enrol(t.T)
				s.Executor.AddArgs("--bus", m.url())
				if err := s.Executor.Start(); err != nil {
					t.Fatal(err)
				}
				t.eventually("the executor says that it does not trust the bus", func() error {
					if log := s.Executor.Log(); !strings.Contains(log, code.BusNotTrusted) {
						return fmt.Errorf("its log is %s", log)
					}
					return nil
				})
				if n := m.read.Load(); n != 0 || !s.Executor.Running() {
					t.Errorf("%s: %d bytes read; the executor runs: %t", what, n, s.Executor.Running())
				}
				if err := s.Executor.Stop(); err != nil {
					t.Error(err)
				}
			}
			return "the executor sent nothing, waits, and keeps its agents"
		},
	})
}

// join runs the executor's join against an address of the bus.
func (t *trial) join(token trust.Token, url string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(t.Bin, "executor"), "join", "--bus", url,
		"--root", filepath.Join(t.Dir, "servers", token.ServerID), "--token", "-")
	cmd.Stdin = strings.NewReader(token.String())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// machine stands between a client and the bus.
type machine struct {
	net.Listener
	config *tls.Config  // nil means no TLS
	read   atomic.Int64 // bytes that a client sent after the greeting, in clear
}

func (m *machine) url() string { return "tls://" + m.Addr().String() }

// machines returns those that an attacker may put in between.
func (t *trial) machines() map[string]*machine {
	t.Helper()
	ca, err := trust.OpenCA(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Server([]string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*machine{
		"another certificate": listen(t.T, &tls.Config{Certificates: []tls.Certificate{cert}}),
		"no TLS":              listen(t.T, nil),
	}
}

func listen(t *testing.T, config *tls.Config) *machine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	m := &machine{Listener: l, config: config}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.greet(c)
		}
	}()
	return m
}

// greet greets as a bus does, and reads what comes.
func (m *machine) greet(c net.Conn) {
	defer func() { _ = c.Close() }()
	fmt.Fprintf(c, "INFO {\"server_id\":\"x\",\"nonce\":\"AAAA\",\"max_payload\":1024,\"tls_required\":%t}\r\n",
		m.config != nil)
	if m.config != nil {
		c = tls.Server(c, m.config)
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, _ := c.Read(make([]byte, 4096))
	m.read.Add(int64(n))
}
