package allinone_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/freeport"
)

func TestMembersAreThreeDifferentHosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a,b,c":             "a:6222,b:6222,c:6222",
		"a:1, b:2 ,[::1]:3": "a:1,b:2,[::1]:3",
		"::1,127.0.0.1,c":   "[::1]:6222,127.0.0.1:6222,c:6222",
		"a,b":               "2 members, want 3",
		"a,b,c,d":           "4 members, want 3",
		"a,b,a:7":           `"a" appears twice`,
		"a,b,":              "is not HOST or HOST:PORT",
		"a,b,c:0":           "is not a port",
		"a,b,c:x":           "is not a port",
		"a,b,tls://c":       "is not HOST or HOST:PORT",
		"a,b,c d":           "is not HOST or HOST:PORT",
		"":                  "is not HOST or HOST:PORT",
	} {
		m, err := allinone.ParseMembers(text)
		if got := m.String(); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestAMemberThatDoesNotFitIsRefusedBeforeItStarts(t *testing.T) {
	t.Parallel()
	members, err := allinone.ParseMembers("127.0.0.1,127.0.0.2,127.0.0.3")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		listen, advertise, has, want string
		alone                        bool
	}{
		"no port":              {listen: "127.0.0.1:0", want: "needs a port"},
		"one port for both":    {listen: "127.0.0.1:6222", want: "port 6222 is both for clients (--listen) and for"},
		"not a member":         {listen: "127.0.0.4:4222", want: "the address of this garrisond, is not among"},
		"advertised elsewhere": {listen: "127.0.0.1:4222", advertise: "bus", want: "bus, the address of this"},
		"streams of its own":   {listen: "127.0.0.1:4222", has: "jetstream", want: "garrisond grow"},
		"a cluster's streams":  {listen: "127.0.0.1:4222", has: "cluster", alone: true, want: "--cluster that it had"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			if err := os.MkdirAll(filepath.Join(data, c.has, "x"), 0o700); err != nil {
				t.Fatal(err)
			}
			config := allinone.Config{
				Data: data, Listen: c.listen, Advertise: c.advertise, Cluster: members, Lazy: true,
				Log: zerolog.Nop(),
			}
			if c.alone {
				config.Cluster = nil
			}
			g, err := allinone.Start(t.Context(), config)
			if err == nil {
				g.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// The server itself would wait for routes that never come.
func TestAMemberWhosePortForTheOthersIsTakenIsRefusedByItsName(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	members, err := allinone.ParseMembers(l.Addr().String() + ",127.0.0.2,127.0.0.3")
	if err != nil {
		t.Fatal(err)
	}
	var log buffer
	g, err := allinone.Start(t.Context(), allinone.Config{
		Data: t.TempDir(), Listen: freeport.Address(port), Cluster: members, Lazy: true, Log: zerolog.New(&log),
	})
	if err == nil {
		g.Close()
		t.Fatal("it started")
	}
	for _, want := range []string{
		"listen for the other members at " + l.Addr().String() + ":", "address already in use", "a nats-server",
		"127.0.0.1:PORT in --cluster",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if strings.Contains(log.String(), "routing") {
		t.Errorf("the bus was started; it logged: %s", log.String())
	}
}
