package allinone

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// startLobby runs a Garrison, with or without a lobby, and returns its operator.
func startLobby(t *testing.T, lobby bool) (*Garrison, *bus.Conn) {
	t.Helper()
	g, err := Start(t.Context(), Config{Data: t.TempDir(), Listen: "127.0.0.1:0", Lobby: lobby, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, g)
	t.Cleanup(func() { stop(); g.Close() })
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g, asOperator(t, g)
}

func callRegistry[R proto.Message](t *testing.T, c *bus.Conn, method string, q proto.Message) R {
	t.Helper()
	methods := client.Services[ledger.Registry].Methods()
	for n := range methods.Len() {
		if m := methods.Get(n); string(m.Name()) == method {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := bus.Call[R](ctx, c, ledger.Registry, m, q)
			if err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			return r
		}
	}
	t.Fatalf("no method %s", method)
	return *new(R)
}

// stranger connects without credentials.
func stranger(t *testing.T, g *Garrison) (*nats.Conn, error) {
	t.Helper()
	return nats.Connect("", nats.Timeout(time.Minute),
		nats.InProcessServer(g.server), nats.CustomInboxPrefix(topology.Inbox(topology.UserLobby)),
		nats.Timeout(20*time.Second))
}

// knockOf is a request to join with a new key, and its subject.
func knockOf(t *testing.T, host string) (subject string, request []byte) {
	t.Helper()
	public, seed, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	seal, err := trust.NewSealKey()
	if err != nil {
		t.Fatal(err)
	}
	knock, _ := proto.Marshal(&registryv1.Knock{
		PublicKey: public, SealKey: seal.Public(),
		Sysinfo: &serverv1.Sysinfo{Hostname: host, Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
	})
	signature, err := trust.SignKnock(seed, knock)
	if err != nil {
		t.Fatal(err)
	}
	request, _ = proto.Marshal(&registryv1.KnockRequest{Knock: knock, Signature: signature})
	return topology.KnockSubject(public), request
}

func TestWithoutALobbyTheBusRefusesAClientWithoutCredentials(t *testing.T) {
	t.Parallel()
	g, _ := startLobby(t, false)
	if c, err := stranger(t, g); err == nil {
		c.Close()
		t.Error("it was let in")
	}
}

func TestAStrangerCanDoNothingButAskToJoin(t *testing.T) {
	t.Parallel()
	g, _ := startLobby(t, true)
	denied := make(chan error, 16)
	c, err := nats.Connect("", nats.Timeout(time.Minute), nats.InProcessServer(g.server),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other := topology.ServerAddress{Cell: topology.DefaultCell, Server: "x"}
	for _, subject := range []string{
		topology.BeatSubject(other), topology.EnrolSubject(other),
		topology.APISubject(topology.UserRegistry, "read", "list-servers", "operator"),
		topology.CoreAPI + ".INFO", topology.Inbox(topology.UserLobby) + ".forged",
	} {
		if err := c.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-denied:
		case <-time.After(time.Minute):
			t.Errorf("it may publish on %s", subject)
		}
	}
	if _, err := c.SubscribeSync(topology.KnockSubjects); err != nil {
		t.Fatal(err)
	}
	select {
	case <-denied:
	case <-time.After(time.Minute):
		t.Error("it may listen to others")
	}
}

// inLobby returns the fingerprints of the machines that wait.
func inLobby(t *testing.T, operator *bus.Conn) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for cursor := ""; ; {
		r := callRegistry[*registryv1.ListLobbyResponse](t, operator, "ListLobby",
			&registryv1.ListLobbyRequest{Page: &apiv1.Page{Limit: 1000, Cursor: cursor}})
		for _, w := range r.Waiting {
			all[w.Fingerprint] = true
		}
		if cursor = r.NextCursor; cursor == "" {
			return all
		}
	}
}

// Half as many keys again as the lobby holds take no more memory than it has, and the registry answers as before.
func TestTheLobbyHoldsAgainstMoreKeysThanItKeeps(t *testing.T) {
	t.Parallel()
	g, operator := startLobby(t, true)
	const keys, connections = 3000, 16
	var strangers [connections]*nats.Conn
	for n := range connections {
		polltest.Eventually(t, "a stranger is let in", func() bool { // the bus drops a pipe that nothing reads for 2 s
			c, err := stranger(t, g)
			strangers[n] = c
			return err == nil
		})
		defer strangers[n].Close()
	}
	var all sync.WaitGroup
	for n, c := range strangers {
		all.Go(func() {
			for k := range keys / connections {
				subject, request := knockOf(t, fmt.Sprintf("fake-%d-%d", n, k))
				_ = c.Publish(subject, request) // the bus may have enough of it
			}
			_ = c.FlushTimeout(time.Minute)
		})
	}
	all.Wait()
	// The list changes from page to page until the registry, which looks at some hundred keys a second, has seen all.
	waiting := inLobby(t, operator)
	for end, before := time.Now().Add(4*time.Minute), map[string]bool(nil); !maps.Equal(before, waiting); {
		if time.Now().After(end) {
			t.Fatal("the list changes for four minutes")
		}
		before, waiting = waiting, inLobby(t, operator)
	}
	if len(waiting) == 0 || len(waiting) > 2000 {
		t.Errorf("%d machines wait, want 1 to 2000", len(waiting))
	}
	invited := callRegistry[*registryv1.InviteServerResponse](t, operator, "InviteServer",
		&registryv1.InviteServerRequest{Name: "honest"})
	if invited.Token == "" {
		t.Error("an operator cannot invite a server meanwhile")
	}
	t.Logf("%d of %d keys wait", len(waiting), keys)
}

// A thousand machines are accepted and retired, each by a few requests.
func TestAThousandMachinesAreAcceptedAndRetired(t *testing.T) {
	t.Parallel()
	g, operator := startLobby(t, true)
	const machines = 1000
	c, err := stranger(t, g)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var fingerprints []string
	for n := range machines {
		subject, request := knockOf(t, fmt.Sprintf("node-%04d", n))
		key, err := topology.ParseKnockSubject(subject)
		if err != nil {
			t.Fatal(err)
		}
		fingerprints = append(fingerprints, key)
		polltest.Eventually(t, "a knock is answered", func() bool { // the registry looks at some hundred in a second
			_, err := c.Request(subject, request, time.Second)
			return err == nil
		})
	}
	begun := time.Now()
	for n := 0; n < machines; n += 200 {
		r := callRegistry[*registryv1.AcceptLobbyResponse](t, operator, "AcceptLobby",
			&registryv1.AcceptLobbyRequest{Fingerprints: fingerprints[n : n+200]})
		if len(r.Accepted) != 200 {
			t.Fatalf("%d accepted", len(r.Accepted))
		}
	}
	t.Logf("accepted after %v", time.Since(begun))
	begun = time.Now()
	cl := client.New(operator, time.Minute)
	id := client.NewID()
	ask := &intentv1.Intent{AtOnce: true, Ask: &intentv1.Intent_Decommission{Decommission: &intentv1.Decommission{
		On: &intentv1.Selector{All: true}, Lost: true,
	}}}
	if err := cl.Publish(t.Context(), id, ask); err != nil {
		t.Fatal(err)
	}
	record, err := cl.Decision(t.Context(), id)
	if err != nil || record.GetChanged() != machines || len(record.GetServerIds()) != machines {
		t.Fatalf("%d changed, %d named: %v", record.GetChanged(), len(record.GetServerIds()), err)
	}
	t.Logf("retired after %v", time.Since(begun))
}
