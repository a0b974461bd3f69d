package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func init() {
	add(attack{
		name: "leave the copy of the ledger", as: "auditor",
		tried: "every call of JetStream that writes, every subject that leaves or enters an account, services, and " +
			"the consumers and inboxes of other auditors",
		stopped: "permissions: one stream, and consumers that have the auditor's name",
		run:     leaveCopy,
	})
	add(attack{
		name: "write by what a consumer delivers", as: "auditor",
		tried: "consumers and requests whose facts and refusals go to each imported subject, to the mirror, to calls " +
			"of JetStream, to intents, documents and other inboxes",
		stopped: "auditors have an account without streams; CORE exports no call that names a subject; the mirror " +
			"takes messages of its own consumer only",
		run: deliverElsewhere,
	})
}

// subjectsBeyond lists what an auditor may not publish on.
func subjectsBeyond(own, other string) []string {
	var all []string
	for _, e := range topology.Exports {
		if e.To != topology.AccountAudit {
			all = append(all, written(e.Name()), written(e.Imported()))
		}
	}
	for _, api := range []string{topology.CoreAPI, topology.AuditAPI} {
		all = append(all, callsBeyond(api, other)...)
	}
	return append(all, "$JS.ACK."+topology.Copy+"."+other+".1.1.1.1.1",
		"$JS.ACK."+topology.Copy+"."+other+"."+topology.Copy+"."+own+".1.1.1", topology.SystemClaimsUpdate,
		topology.SystemStreams, "$KV.any.key", "$O.any", "garrison.audit."+other+".x", topology.Inbox("operator")+".x",
		ledger.FactSubject(ledger.Server, ident.New(), "online"), "garrison.copy")
}

// callsBeyond lists the calls of JetStream that an auditor may not make.
func callsBeyond(api, other string) (all []string) {
	for _, stream := range []string{topology.Copy, topology.Ledger, topology.Intents, topology.Desired, "NEW"} {
		for _, call := range []string{
			"STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT",
			"STREAM.RESTORE", "STREAM.LEADER.STEPDOWN", "STREAM.PEER.REMOVE", "CONSUMER.CREATE", "CONSUMER.LIST",
		} {
			all = append(all, api+"."+call+"."+stream)
		}
		for _, call := range []string{"CREATE", "DURABLE.CREATE", "INFO", "DELETE", "RESET", "PAUSE", "MSG.NEXT"} {
			for _, consumer := range []string{other, other + "-A", topology.Copy, "random"} {
				all = append(all, api+".CONSUMER."+call+"."+stream+"."+consumer)
			}
		}
	}
	return all
}

// written is a pattern as a subject that it matches.
func written(pattern string) string {
	return strings.ReplaceAll(strings.ReplaceAll(pattern, "*", "x"), ">", "x")
}

func leaveCopy(t *trial) string {
	who, other := t.person(topology.Auditor), t.person(topology.Auditor)
	c := t.connect(who, auditorInbox(who))
	all := subjectsBeyond(who.name, other.name)
	for _, subject := range all {
		if t.denied(c, subject) == nil {
			t.Errorf("the bus let %s pass", subject)
		}
	}
	for _, subject := range []string{
		">", topology.TailSubject, "garrison.copy", "garrison.audit." + other.name + ".>", "$JS.>", "_INBOX.>",
		"$SYS.>",
	} {
		if _, err := c.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := c.FlushTimeout(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		if err := c.LastError(); err == nil || !strings.Contains(err.Error(), `"`+subject+`"`) {
			t.Errorf("an auditor listens to %s: %v", subject, err)
		}
	}
	q, _ := json.Marshal(map[string]any{"stream_name": topology.Copy, "config": map[string]any{
		"durable_name": other.name, "name": other.name, "ack_policy": "explicit",
	}})
	answer, err := c.Request(topology.AuditAPI+".CONSUMER.CREATE."+topology.Copy+"."+who.name, q, 5*time.Second)
	if err != nil || !bytes.Contains(answer.Data, []byte(`"error"`)) {
		t.Errorf("a consumer with another's name in its configuration: %v", err)
	}
	return fmt.Sprintf("%d subjects refused by the bus", len(all))
}

// auditorInbox has an auditor's client receive answers where its user may.
func auditorInbox(who login) nats.Option { return nats.CustomInboxPrefix("garrison.audit." + who.name) }

// auditorStreams returns JetStream as auditors have it.
func auditorStreams(c *nats.Conn) (jetstream.JetStream, error) {
	return jetstream.NewWithAPIPrefix(c, topology.AuditAPI)
}

// targetsOfDeliveries lists where facts would do harm.
func targetsOfDeliveries(other login) []string {
	var all []string
	for _, e := range topology.Exports {
		if e.To == topology.AccountCopy {
			all = append(all, written(e.Name()), written(e.Imported()))
		}
	}
	return append(all,
		topology.CoreAPI+".STREAM.DELETE."+topology.Copy, topology.CoreAPI+".STREAM.PURGE."+topology.Copy,
		topology.CoreAPI+".CONSUMER.DELETE."+topology.Copy+"."+other.name,
		topology.CoreAPI+".STREAM.DELETE."+topology.Ledger,
		topology.CoreAPI+".STREAM.DELETE."+topology.Desired, topology.SystemStats,
		topology.IntentSubject(topology.VerbRemove, other.name, ident.New()),
		topology.DesiredSubject(topology.ServerAddress{Cell: "main", Server: ident.New()}),
		ledger.FactSubject(ledger.Server, ident.New(), "online"), "garrison.audit."+other.name+".loot",
		topology.APISubject(topology.UserRegistry, "read", "about", other.name))
}

func deliverElsewhere(t *trial) string {
	who, other := t.person(topology.Auditor), t.person(topology.Auditor)
	js, err := auditorStreams(t.connect(who, auditorInbox(who)))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := auditorStreams(t.connect(other, auditorInbox(other)))
	if err != nil {
		t.Fatal(err)
	}
	t.copied()
	if _, err := theirs.CreateConsumer(t.Context(), topology.Copy, jetstream.ConsumerConfig{
		Durable: other.name, AckPolicy: jetstream.AckExplicitPolicy,
	}); err != nil {
		t.Fatal(err)
	}
	before := t.streamsOfCore()
	n := 0
	for _, target := range targetsOfDeliveries(other) {
		for _, headersOnly := range []bool{false, true} {
			t.deliver(js, who, target, headersOnly)
			n++
		}
	}
	if after := t.streamsOfCore(); !slices.Equal(before, after) {
		t.Errorf("CORE has the streams %v, had %v", after, before)
	}
	if _, err := theirs.Consumer(t.Context(), topology.Copy, other.name); err != nil {
		t.Errorf("the consumer of the other auditor: %v", err)
	}
	t.ok(t.T, "app", "create", t.unused("after")) // CORE takes facts
	t.copied()
	return fmt.Sprintf("%d deliveries; the copy is the ledger", n)
}

// deliver has the copy deliver its facts to a subject, by a consumer that pushes and by one that answers a request.
func (t *trial) deliver(js jetstream.JetStream, who login, target string, headersOnly bool) {
	t.Helper()
	push := jetstream.ConsumerConfig{
		Durable: who.name, DeliverSubject: target, AckPolicy: jetstream.AckNonePolicy, HeadersOnly: headersOnly,
		IdleHeartbeat: 100 * time.Millisecond, FlowControl: true,
	}
	if _, err := js.CreatePushConsumer(t.Context(), topology.Copy, push); err == nil {
		t.pushed(js, who.name)
	}
	pull := jetstream.ConsumerConfig{
		Durable: who.name + "-A", AckPolicy: jetstream.AckNonePolicy, HeadersOnly: headersOnly,
	}
	if _, err := js.CreateConsumer(t.Context(), topology.Copy, pull); err != nil {
		t.Fatal(err)
	}
	next, get := "CONSUMER.MSG.NEXT."+topology.Copy+"."+pull.Durable, "DIRECT.GET."+topology.Copy
	for _, call := range [][2]string{ // some of the answers have no body
		{next, `{"batch":10,"no_wait":true}`}, {next, `{"batch":100000,"no_wait":true}`}, {next, `{"batch":-1}`},
		{get, `{"seq":1}`}, {get, `{"seq":1000000}`}, {get, `{}`}, {get, ``}, {get + ".none", ``},
		{"STREAM.INFO." + topology.Copy, ``}, {"CONSUMER.INFO." + topology.Copy + "." + pull.Durable, ``},
	} {
		m := nats.NewMsg(topology.AuditAPI + "." + call[0])
		m.Reply, m.Data = target, []byte(call[1])
		if err := js.Conn().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Conn().Request(topology.AuditAPI+".INFO", nil, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), topology.Copy, pull.Durable); err != nil {
		t.Errorf("delete the consumer that delivered to %s: %v", target, err)
	}
}

// pushed waits until a consumer delivered something, or has nowhere to, and deletes it.
func (t *trial) pushed(js jetstream.JetStream, name string) {
	t.Helper()
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		c, err := js.PushConsumer(t.Context(), topology.Copy, name)
		if err != nil || c.CachedInfo().Delivered.Stream > 0 {
			break
		}
	}
	_ = js.DeleteConsumer(t.Context(), topology.Copy, name)
}

// provisioner returns JetStream as the user who provisions an account has it.
func (t *trial) provisioner(user string) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(t.connect(t.service(user)))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// streamsOfCore returns the streams of CORE with when they were created, and the consumers of the ledger.
func (t *trial) streamsOfCore() (all []string) {
	t.Helper()
	core := t.provisioner(topology.UserProvision)
	list := core.ListStreams(t.Context())
	for s := range list.Info() {
		all = append(all, fmt.Sprint(s.Config.Name, s.Created, s.State.Consumers))
	}
	if list.Err() != nil {
		t.Fatal(list.Err())
	}
	slices.Sort(all)
	return all
}

// copied waits until the copy has the end of the ledger, and compares each fact.
func (t *trial) copied() {
	t.Helper()
	core := t.provisioner(topology.UserProvision)
	who := t.person(topology.Auditor)
	audit, err := auditorStreams(t.connect(who, auditorInbox(who)))
	if err != nil {
		t.Fatal(err)
	}
	facts, err := core.Stream(t.Context(), topology.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	end := facts.CachedInfo().State.LastSeq
	var copied jetstream.Stream
	t.eventually("the copy has all facts", func() error {
		if copied, err = audit.Stream(t.Context(), topology.Copy); err != nil {
			return err
		}
		if s := copied.CachedInfo().State; s.LastSeq < end || s.Msgs != s.LastSeq {
			return fmt.Errorf("the copy has %d facts up to %d, the ledger ends at %d", s.Msgs, s.LastSeq, end)
		}
		return nil
	})
	for n := range end {
		want, err := facts.GetMsg(t.Context(), n+1)
		have, e := copied.GetMsg(t.Context(), n+1)
		if err != nil || e != nil {
			t.Fatalf("fact %d: %v; in the copy: %v", n+1, err, e)
		}
		for name := range want.Header { // these steer a batch and its guards
			if strings.HasPrefix(name, "Nats-Expected-") || strings.HasPrefix(name, "Nats-Batch-") {
				delete(want.Header, name)
			}
		}
		want.Header.Set("Nats-Stream", topology.Copy)
		if have.Subject != want.Subject || !bytes.Equal(have.Data, want.Data) || !have.Time.Equal(want.Time) ||
			!reflect.DeepEqual(have.Header, want.Header) {
			t.Fatalf("fact %d is %v in the ledger and %v in the copy", n+1, want, have)
		}
	}
}
