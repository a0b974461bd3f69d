package trust_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A person in the least role cannot make anything happen, neither directly nor by
// having an answer sent to a subject that leads into CORE: the account's own imports
// are such subjects.
func TestAViewerChangesNothing(t *testing.T) {
	g := bustest.StartGuarded(t)
	registry := g.Service(t, topology.UserRegistry)
	fact := "garrison.ledger.server." + ident.New() + ".online"
	body, err := proto.Marshal(wrapperspb.String("whatever the ledger holds"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.PublishDurable(t.Context(), bus.Durable{Subject: fact, Data: body}); err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 100)
	if _, err := registry.Subscribe("garrison.api.registry.*.*.*", func(m bus.Message) { asked <- m.Subject }); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Stream(t.Context(), topology.Ledger); err != nil { // the subscription has reached the server
		t.Fatal(err)
	}
	want := sizes(t, g)
	viewer := g.RawPerson(t, "eve", topology.Viewer)
	inbox := topology.Inbox("eve") + ".loot"
	read := topology.OpsAPI + ".DIRECT.GET.LEDGER"
	get := []byte(`{"last_by_subj":"` + fact + `"}`)
	for name, m := range map[string]*nats.Msg{
		"publish an intent":                  {Subject: topology.IntentSubject("remove", "eve", ident.New()), Reply: inbox, Data: []byte("{}")},
		"publish an intent as another":       {Subject: topology.IntentSubject("remove", "alice", ident.New()), Reply: inbox, Data: []byte("{}")},
		"publish an intent by reply subject": {Subject: read, Reply: topology.IntentSubject("remove", "alice", ident.New()), Data: get},
		"call a method by reply subject":     {Subject: read, Reply: topology.APISubject(topology.UserRegistry, "admin", "invite-server", "alice"), Data: get},
		"call a method that writes":          {Subject: topology.APISubject(topology.UserRegistry, "write", "create-agent", "eve"), Reply: inbox},
		"call as another":                    {Subject: topology.APISubject(topology.UserRegistry, "read", "list-servers", "alice"), Reply: inbox},
		"write the ledger by reply subject":  {Subject: read, Reply: fact, Data: get},
		"write a document by reply subject":  {Subject: read, Reply: "garrison.desired.main." + ident.New(), Data: get},
		"read another stream":                {Subject: topology.OpsAPI + ".DIRECT.GET.DESIRED", Reply: inbox, Data: []byte(`{"seq":1}`)},
		"make a consumer":                    {Subject: "$JS.API.CONSUMER.CREATE.LEDGER", Reply: inbox, Data: []byte(`{"stream_name":"LEDGER","config":{"deliver_subject":"` + inbox + `"}}`)},
		"delete a stream":                    {Subject: "$JS.API.STREAM.DELETE.LEDGER", Reply: inbox},
		"answer for the registry":            {Subject: "_R_.x", Reply: inbox},
		"beat for a server":                  {Subject: "garrison.beat.main." + ident.New(), Reply: inbox},
		"an intent by the answer of a read":  {Subject: topology.APISubject(topology.UserRegistry, "read", "about", "eve"), Reply: topology.IntentSubject("remove", "alice", ident.New())},
	} {
		if err := viewer.PublishMsg(m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if _, err := viewer.Request(read, get, 5*time.Second); err != nil {
		t.Fatalf("a viewer reads the ledger: %v", err)
	}
	if _, err := registry.Stream(t.Context(), topology.Ledger); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case subject := <-asked:
			if !strings.HasPrefix(subject, "garrison.api.registry.read.about.") {
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

// A report is read again by its subject, to see whether it is still the last.
func TestTheRegistryReadsTheLastReportOfAServer(t *testing.T) {
	g := bustest.StartGuarded(t)
	me := topology.ServerAddress{Cell: "main", Server: ident.New()}
	subject := topology.ReportSubject(me, topology.ReportAgents)
	if _, err := g.Server(t, me.Server, me.Cell).PublishDurable(t.Context(), bus.Durable{Subject: subject, Data: []byte("report")}); err != nil {
		t.Fatal(err)
	}
	m, err := g.Service(t, topology.UserRegistry).DirectGet(t.Context(), topology.Reports, subject)
	if err != nil || string(m.Data) != "report" {
		t.Errorf("read %q, %v", m.Data, err)
	}
}
