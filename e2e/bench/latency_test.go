package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// BenchmarkLatency measures the time from the publishing of an intent until its document can be
// read, on an unloaded system.
func BenchmarkLatency(b *testing.B) {
	w, server := oneServer(b, quick("1.0.0"), quick("2.0.0"))
	operator, dispatcher := w.operator(), w.service(topology.UserDispatcher)
	n := max(asked.scaled(50), 10)
	var intents, publishes []float64
	for i := range n {
		version := []string{"2.0.0", "1.0.0"}[i%2]
		stored, readable := once(b, operator, dispatcher, server.Name, version)
		publishes, intents = append(publishes, stored), append(intents, readable)
		w.waitConverged(version, 1)
	}
	slices.Sort(intents)
	report(b, figure{
		"intent published -> document readable, ms",
		fmt.Sprintf("p50 %.1f, p99 %.1f (n=%d)", median(intents), at(intents, 99), n),
		fmt.Sprintf("one stored publish: p50 %.2f", median(publishes)), ratio(median(intents), median(publishes)), "",
	})
}

// once publishes an upgrade and waits until a document with it can be read. It returns
// the milliseconds until the intent was stored and until the document was readable.
func once(b *testing.B, operator, dispatcher *bus.Conn, server, version string) (stored, readable float64) {
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	data := must(proto.Marshal(&intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: "beacon", Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}},
		On: &intentv1.Selector{Servers: []string{server}},
	}}}))(b)
	started := time.Now()
	subject := topology.IntentSubject(topology.VerbUpgrade, operator.Name(), ident.New())
	must(operator.PublishDurable(ctx, bus.Durable{Subject: subject, Once: true, Data: data}))(b)
	stored = time.Since(started).Seconds() * 1000
	for {
		subjects := must(dispatcher.DirectGetFrom(ctx, topology.Desired, topology.DesiredSubjects, 1, 1))(b)
		if len(subjects) == 1 && wants(subjects[0].Data, version) {
			return stored, time.Since(started).Seconds() * 1000
		}
	}
}

// wants reports whether a document has a task under way that brings the version.
func wants(document []byte, version string) bool {
	var d desiredv1.Document
	if proto.Unmarshal(document, &d) != nil {
		return false
	}
	return slices.ContainsFunc(d.Entries, func(e *desiredv1.Entry) bool { return e.Image.GetVersion() == version })
}
