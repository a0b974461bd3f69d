package attack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func init() {
	add(attack{
		name: "make another server mute", as: "server",
		tried:   "1,500 reports under the message ids that the other's reports could have",
		stopped: "reports have no message id", run: takeServersIDs,
	})
	add(attack{
		name: "make another person mute", as: "operator",
		tried: "an intent under the message id of another's", stopped: "intents have no message id",
		run: takePersonsID,
	})
	add(attack{
		name: "fill the memory with message ids", as: "server",
		tried: "reports with ids of 60 KB", stopped: "the bus forgets ids after 100 ms; " + suspended,
		flood: func(ctx context.Context, t *trial) {
			t.sideBySide(ctx, 1, t.attacker.login, func(c *nats.Conn, i int) {
				id := fmt.Sprint(i) + strings.Repeat("x", 60_000)
				_ = c.PublishMsg(t.named(topology.ReportTask, id))
			})
		},
	})
}

// named returns a report of the attacker with a message id.
func (t *trial) named(kind, id string) *nats.Msg {
	m := nats.NewMsg(topology.ReportSubject(t.attacker.address, kind))
	m.Header.Set(nats.MsgIdHdr, id)
	return m
}

func takeServersIDs(t *trial) string {
	c := t.connect(t.attacker.login)
	for i := range 1500 { // a key that sends more in a second is suspended
		id := fmt.Sprintf("%s-%d", t.victim.address.Server, i)
		if err := c.PublishMsg(t.named(topology.ReportTask, id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.FlushTimeout(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), upgradeWithin())
	defer cancel()
	if err := t.upgrade(ctx); err != nil {
		t.Errorf("the other server's upgrade: %v", err)
	}
	registry := t.connect(t.service(topology.UserRegistry))
	agents := topology.ReportSubject(t.victim.address, topology.ReportAgents)
	m, err := registry.Request(topology.ServicesAPI+".DIRECT.GET."+topology.Reports+"."+agents, nil, 5*time.Second)
	if err != nil || m.Header.Get("Nats-Subject") == "" {
		t.Fatalf("read the last report: %v %v", m, err)
	}
	if id := m.Header.Get(nats.MsgIdHdr); id != "" {
		t.Errorf("the other server's reports have ids such as %s", id)
	}
	return "the other's reports arrive"
}

func takePersonsID(t *trial) string {
	mallory := t.person(topology.Operator)
	c := t.connect(mallory)
	id := client.NewID()
	m := nats.NewMsg(topology.IntentSubject(topology.VerbRefresh, mallory.name, client.NewID()))
	m.Header.Set(nats.MsgIdHdr, id)
	if _, err := c.RequestMsg(m, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	refresh := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: sample.Agent, Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: t.at}},
		On: &intentv1.Selector{Servers: []string{t.victim.Name}},
	}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := t.operator.Publish(ctx, id, refresh); err != nil {
		t.Fatal(err)
	}
	if _, err := t.operator.Decision(ctx, id); err != nil {
		t.Errorf("the other's intent: %v", err)
	}
	return "the other's intent is decided"
}
