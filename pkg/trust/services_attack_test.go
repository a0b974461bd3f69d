package trust_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A stolen key of one service writes nothing that another service or a person writes: not
// directly, and not by the reply subject of anything that it may publish. Bodies make calls
// answer with a message, and make a consumer deliver to a subject of the attacker's choice.
func TestAServiceCannotWriteWhatIsNotItsOwn(t *testing.T) {
	for _, user := range topology.Services {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			attackAsService(t, bustest.StartGuarded(t), user)
		})
	}
	t.Run("three servers", func(t *testing.T) {
		t.Parallel()
		attackAsService(t, bustest.StartGuardedCluster(t)[1], topology.UserDispatcher)
	})
}

func attackAsService(t *testing.T, g *bustest.Guarded, user string) {
	t.Helper()
	fill(t, g)
	before := lastSequences(t, g)
	attacker := g.RawService(t, user)
	tries := 0
	send := func(m *nats.Msg) {
		tries++
		if err := attacker.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range targets {
		send(&nats.Msg{Subject: target, Reply: topology.Inbox(user) + ".loot", Data: []byte("forged")})
		consumer := `{"stream_name":"LEDGER","config":{"deliver_subject":"` + target + `","deliver_policy":"all"}}`
		for _, api := range []string{topology.CoreAPI, topology.ServicesAPI} {
			for _, create := range []string{"CREATE.LEDGER", "CREATE.LEDGER.x", "DURABLE.CREATE.LEDGER.x"} {
				send(&nats.Msg{Subject: api + ".CONSUMER." + create, Reply: target, Data: []byte(consumer)})
			}
		}
		for _, subject := range topology.ServicePermissions(user).Publish {
			for _, body := range bodies {
				send(&nats.Msg{Subject: concrete(subject), Reply: target, Data: []byte(body), Header: nats.Header{
					"Nats-Trace-Dest": {target},
				}})
			}
		}
	}
	if err := attacker.Flush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // answers are sent by goroutines of the bus
	t.Logf("%s: %d tries", user, tries)
	for _, s := range writtenSince(t, g, before) {
		if !ownSubject(user, s) {
			t.Errorf("%s wrote %s", user, s)
		}
	}
}

// targets are subjects that somebody else writes, one of each class.
var targets = []string{
	topology.IntentSubject(topology.VerbRemove, "operator", "0b0e7c9e-3a0d-4c52-8f5a-0d7a4cf3b001"),
	ledger.FactSubject(ledger.Server, "0b0e7c9e-3a0d-4c52-8f5a-0d7a4cf3b002", "dead"),
	ledger.FactSubject(ledger.Image, "0b0e7c9e-3a0d-4c52-8f5a-0d7a4cf3b003", "activated"),
	ledger.FactSubject(ledger.Task, "0b0e7c9e-3a0d-4c52-8f5a-0d7a4cf3b004", "succeeded"),
	topology.DesiredSubject(topology.ServerAddress{Cell: "main", Server: "0b0e7c9e-3a0d-4c52-8f5a-0d7a4cf3b005"}),
	topology.ReportSubject(topology.ServerAddress{Cell: "main", Server: "another"}, topology.ReportTask),
	topology.BlobSubject(make([]byte, 32), 7),
	topology.APISubject(topology.UserRegistry, "admin", "invite-server", "operator"),
}

// bodies make the calls of the JetStream API answer with what the attacker wrote.
var bodies = []string{
	"", `{"seq":1}`, `{"seq":1,"batch":10}`, `{"last_by_subj":"` + ledger.AllSubjects + `"}`,
	`{"batch":1,"expires":1000000000}`, `{"next_by_subj":">","seq":1}`, "+NXT {\"batch\":1}",
}

func concrete(subject string) string {
	return strings.ReplaceAll(strings.ReplaceAll(subject, "*", "main"), ">", ident.New()+".online")
}

// ownSubject reports whether a service may write a subject.
func ownSubject(user, subject string) bool {
	for _, e := range topology.Exports {
		if e.To == topology.AccountOf(user) && !e.Stream && e.From == topology.AccountCore &&
			matches(strings.Split(e.Subject, "."), strings.Split(subject, ".")) {
			return true
		}
	}
	return false
}

func matches(pattern, subject []string) bool {
	for i, token := range pattern {
		if token == ">" {
			return len(subject) > i
		}
		if i >= len(subject) || token != "*" && token != subject[i] {
			return false
		}
	}
	return len(pattern) == len(subject)
}

// fill stores a message in every stream, so that every call has something to answer.
func fill(t *testing.T, g *bustest.Guarded) {
	t.Helper()
	me := topology.ServerAddress{Cell: "main", Server: ident.New()}
	store := func(c *bus.Conn, subject string) {
		if _, err := c.PublishDurable(t.Context(), bus.Durable{Subject: subject, Data: []byte("stored")}); err != nil {
			t.Fatal(err)
		}
	}
	operator := g.Person(t, "operator", topology.Operator)
	store(operator, topology.IntentSubject(topology.VerbInstall, "operator", ident.New()))
	store(g.Server(t, me.Server, me.Cell), topology.ReportSubject(me, topology.ReportTask))
	for user, subject := range map[string]string{
		topology.UserRegistry:   ledger.FactSubject(ledger.Server, me.Server, "online"),
		topology.UserCatalog:    topology.BlobSubject(make([]byte, 32), 0),
		topology.UserDispatcher: topology.DesiredSubject(me),
	} {
		store(g.Service(t, user), subject)
	}
}

func lastSequences(t *testing.T, g *bustest.Guarded) map[string]uint64 {
	t.Helper()
	core, out := g.Service(t, topology.UserProvision), map[string]uint64{}
	for _, s := range topology.Streams(1) {
		polltest.Eventually(t, "the bus says where "+s.Name+" ends", func() bool { // it works through the tries first
			info, err := core.Stream(t.Context(), s.Name)
			out[s.Name] = info.LastSequence
			return err == nil
		})
	}
	return out
}

// writtenSince returns the subjects of everything that was stored since then.
func writtenSince(t *testing.T, g *bustest.Guarded, before map[string]uint64) []string {
	t.Helper()
	core := g.Service(t, topology.UserProvision)
	var out []string
	for stream, end := range lastSequences(t, g) {
		if end == before[stream] {
			continue
		}
		messages, err := core.DirectGetFrom(t.Context(), stream, ">", before[stream]+1, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			out = append(out, m.Subject)
		}
	}
	return out
}
