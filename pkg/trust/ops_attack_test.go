package trust_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// attacksOfViewer are what a viewer, eve, might send to change something. fact is the subject of a fact of the ledger.
func attacksOfViewer(fact string) map[string]*nats.Msg {
	inbox := topology.Inbox("eve") + ".loot"
	const api = "GARRISON.OPS" // under which people once read the ledger
	read := api + ".DIRECT.GET.LEDGER"
	get := []byte(`{"last_by_subj":"` + fact + `"}`)
	remove := func(actor string) string { return topology.IntentSubject("remove", actor, ident.New()) }
	method := func(access, name, caller string) string {
		return topology.APISubject(topology.UserRegistry, access, name, caller)
	}
	server := topology.ServerAddress{Cell: "main", Server: ident.New()}
	consumer := []byte(`{"stream_name":"LEDGER","config":{"deliver_subject":"` + inbox + `"}}`)
	return map[string]*nats.Msg{
		"publish an intent":                  {Subject: remove("eve"), Reply: inbox, Data: []byte("{}")},
		"publish an intent as another":       {Subject: remove("alice"), Reply: inbox, Data: []byte("{}")},
		"publish an intent by reply subject": {Subject: read, Reply: remove("alice"), Data: get},
		"call a method by reply subject": {
			Subject: read, Reply: method("admin", "invite-server", "alice"), Data: get,
		},
		"call a method that writes":         {Subject: method("write", "put-record", "eve"), Reply: inbox},
		"call as another":                   {Subject: method("read", "list-servers", "alice"), Reply: inbox},
		"write the ledger by reply subject": {Subject: read, Reply: fact, Data: get},
		"write a document by reply subject": {Subject: read, Reply: topology.DesiredSubject(server), Data: get},
		"read another stream": {
			Subject: api + ".DIRECT.GET.DESIRED", Reply: inbox, Data: []byte(`{"seq":1}`),
		},
		"make a consumer":                   {Subject: "$JS.API.CONSUMER.CREATE.LEDGER", Reply: inbox, Data: consumer},
		"delete a stream":                   {Subject: "$JS.API.STREAM.DELETE.LEDGER", Reply: inbox},
		"answer for the registry":           {Subject: "_R_.x", Reply: inbox},
		"beat for a server":                 {Subject: topology.BeatSubject(server), Reply: inbox},
		"an intent by the answer of a read": {Subject: method("read", "about", "eve"), Reply: remove("alice")},
	}
}

// A person in the least role cannot make anything happen, neither directly nor by
// having an answer sent to a subject that leads into CORE: the account's own imports
// are such subjects.
func TestAViewerChangesNothing(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	registry := g.Service(t, topology.UserRegistry)
	fact := ledger.FactSubject(ledger.Server, ident.New(), "online")
	body, err := proto.Marshal(wrapperspb.String("whatever the ledger holds"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.PublishDurable(t.Context(), bus.Durable{Subject: fact, Data: body}); err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 100)
	record := func(m bus.Message) { asked <- m.Subject }
	if _, err := registry.Subscribe(topology.ServiceSubjects(topology.UserRegistry), record); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Stream(t.Context(), topology.Ledger); err != nil { // the subscription has reached the server
		t.Fatal(err)
	}
	want := sizes(t, g)
	viewer := g.RawPerson(t, "eve", topology.Viewer)
	for name, m := range attacksOfViewer(fact) {
		if err := viewer.PublishMsg(m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := viewer.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Stream(t.Context(), topology.Ledger); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case subject := <-asked:
			if !strings.HasPrefix(subject, topology.APISubject(topology.UserRegistry, "read", "about", "")) {
				t.Errorf("the registry was asked %s", subject)
			}
			continue
		case <-time.After(300 * time.Millisecond):
		}
		break
	}
	if after := sizes(t, g); after != want {
		t.Errorf("streams end at %v after the attacks, want %v", after, want)
	}
	if err := denied(t, viewer, "_INBOX_alice.>"); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("a viewer listens to another's answers: %v", err)
	}
}

// No person reads the ledger itself, in any form that a direct get has; the registry answers for it.
func TestNoPersonReadsTheLedgerItself(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	registry := g.Service(t, topology.UserRegistry)
	fact := ledger.FactSubject(ledger.Server, ident.New(), "online")
	if _, err := registry.PublishDurable(t.Context(), bus.Durable{Subject: fact, Data: []byte("canary")}); err != nil {
		t.Fatal(err)
	}
	none := ledger.FactSubject(ledger.Server, "none", "online")
	if _, err := registry.DirectGetFresh(t.Context(), topology.Ledger, 1, none); err != nil {
		t.Errorf("the registry reads fresh: %v", err)
	}
	if found, err := registry.DirectGetFrom(t.Context(), topology.Ledger, ">", 1, 1); err != nil || len(found) != 1 {
		t.Fatalf("the registry reads %v (%v)", found, err)
	}
	for _, role := range topology.Roles {
		person := g.RawPerson(t, "eve", role)
		got, err := person.SubscribeSync(topology.Inbox("eve") + ".>")
		if err != nil {
			t.Fatal(err)
		}
		for _, api := range []string{"$JS.API", "GARRISON.OPS", topology.ServicesAPI, topology.NodesAPI} {
			get := api + ".DIRECT.GET.LEDGER"
			for n, m := range []*nats.Msg{
				{Subject: get, Data: []byte(`{"seq":1}`)},
				{Subject: get, Data: []byte(`{"seq":1,"batch":100000,"max_bytes":1073741824,"next_by_subj":">"}`)},
				{Subject: get, Data: []byte(`{"last_by_subj":">"}`)},
				{Subject: get, Data: []byte(`{"multi_last":[">"]}`)},
				{Subject: get, Data: []byte(`{"start_time":"2020-01-01T00:00:00Z","batch":10,"next_by_subj":">"}`)},
				{Subject: get + "." + fact}, {Subject: get + ".>"},
				{Subject: get + "." + ledger.FactSubject("*", "*", "*")},
				{Subject: api + ".STREAM.MSG.GET.LEDGER", Data: []byte(`{"seq":1}`)},
				{Subject: api + ".CONSUMER.CREATE.LEDGER", Data: []byte(`{"stream_name":"LEDGER","config":{}}`)},
			} {
				m.Reply = topology.Inbox("eve") + "." + strconv.Itoa(n)
				if err := person.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := person.FlushTimeout(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		if m, err := got.NextMsg(300 * time.Millisecond); err == nil {
			t.Errorf("as %s, the answer is %q %q", role, m.Header, m.Data)
		}
	}
}

// A report is read again by its subject, to see whether it is still the last.
func TestTheRegistryReadsTheLastReportOfAServer(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	me := topology.ServerAddress{Cell: "main", Server: ident.New()}
	subject := topology.ReportSubject(me, topology.ReportAgents)
	report := bus.Durable{Subject: subject, Data: []byte("report")}
	if _, err := g.Server(t, me.Server, me.Cell).PublishDurable(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	m, err := g.Service(t, topology.UserRegistry).DirectGet(t.Context(), topology.Reports, subject)
	if err != nil || string(m.Data) != "report" {
		t.Errorf("read %q, %v", m.Data, err)
	}
}
