package trust_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// attacksOfApprover are what an approver, eve, might send beside the answers to gates.
func attacksOfApprover() []*nats.Msg {
	inbox := topology.Inbox("eve") + ".loot"
	var all []*nats.Msg
	for _, m := range attacksOfViewer(ledger.FactSubject(ledger.Server, ident.New(), "online")) {
		all = append(all, m)
	}
	try := func(subject string) { all = append(all, &nats.Msg{Subject: subject, Reply: inbox, Data: []byte("{}")}) }
	for _, verb := range []string{
		topology.VerbRollout, topology.VerbInstall, topology.VerbUndo, topology.VerbRemove, topology.VerbDecommission,
	} {
		try(topology.IntentSubject(verb, "eve", ident.New()))
	}
	for _, service := range topology.Services {
		for _, method := range []string{
			"list-servers", "read-facts", "plan-rollout", "list-users", "open-log", "control-rollout", "create-user",
			"invite-server", "report-externals", "put-record", "answer-rollouts", "delete-record", "about",
		} {
			for _, access := range []string{"read", "write", "admin", "report", "answer"} {
				try(topology.APISubject(service, access, method, "eve"))
			}
		}
		for _, access := range []string{"write", "admin", "report", "read"} {
			try(topology.APISubject(service, access, "answer-rollout", "eve"))
		}
	}
	try(topology.APISubject(topology.UserRegistry, "answer", "answer-rollout", "alice"))
	try(topology.APISubject(topology.UserRegistry, "read", "get-rollout", "alice"))
	server := topology.ServerAddress{Cell: "main", Server: ident.New()}
	try(topology.LogReadSubject(server, topology.LogReader{Actor: "eve", Session: ident.New()}))
	for _, subject := range allowedToApprovers { // an answer is sent to the reply subject of a request
		all = append(all, &nats.Msg{
			Subject: subject, Reply: topology.IntentSubject(topology.VerbRemove, "alice", ident.New()),
		})
	}
	return all
}

// allowedToApprovers is everything that an approver may ask.
var allowedToApprovers = []string{
	topology.APISubject(topology.UserRegistry, "answer", "answer-rollout", "eve"),
	topology.APISubject(topology.UserRegistry, "read", "get-rollout", "eve"),
	topology.APISubject(topology.UserRegistry, "read", "list-rollouts", "eve"),
	topology.APISubject(topology.UserRegistry, "read", "list-rollout-targets", "eve"),
	topology.APISubject(topology.UserAccess, "read", "renew-self", "eve"),
}

// The key of an approver answers gates and shows rollouts. Nothing else reaches a service or a stream.
func TestAnApproverAnswersGatesAndDoesNothingElse(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	asked := make(chan bus.Message, 10_000)
	for _, user := range topology.Services {
		service := g.Service(t, user)
		record := func(m bus.Message) { asked <- m }
		if _, err := service.Subscribe(topology.ServiceSubjects(user), record); err != nil {
			t.Fatal(err)
		}
		// Its answer shows that the subscription has reached the server.
		if _, err := service.Stream(t.Context(), topology.Ledger); err != nil {
			t.Fatal(err)
		}
	}
	want := sizes(t, g)
	approver := g.RawPerson(t, "eve", topology.Approver)
	for _, m := range attacksOfApprover() {
		if err := approver.PublishMsg(m); err != nil {
			t.Fatalf("%s: %v", m.Subject, err)
		}
	}
	if err := approver.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	const last = "the last one" // messages of one connection arrive in their order
	if err := approver.Publish(allowedToApprovers[0], []byte(last)); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; {
		select {
		case m := <-asked:
			if !slices.Contains(allowedToApprovers, m.Subject) {
				t.Errorf("a service was asked %s", m.Subject)
			}
			ended = string(m.Data) == last
		case <-time.After(time.Minute):
			t.Fatal("an answer does not reach the registry")
		}
	}
	if after := sizes(t, g); after != want {
		t.Errorf("streams end at %v after the attacks, want %v", after, want)
	}
	for _, subject := range []string{topology.TailSubject, topology.LiveSubjects, "_INBOX_alice.>", ">"} {
		if err := denied(t, approver, subject); err == nil {
			t.Errorf("an approver listens to %s", subject)
		}
	}
}
