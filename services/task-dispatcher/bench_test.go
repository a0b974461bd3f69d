package dispatcher

import (
	"testing"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// BenchmarkOneChange measures one change in an idle dispatcher: wanted, queued, assigned, document,
// bell, and the report of its success.
func BenchmarkOneChange(b *testing.B) {
	w := newWorld(b)
	d, _ := w.start(Config{})
	w.execute(nil)
	s := serverID(1)
	w.enrol(s)
	img := w.image("shipper", "1.0.0")
	n := 0
	for b.Loop() {
		n++
		w.want(s, "shipper", uint64(n), img)
		w.awaitEnds(d, min(n, 10_000))
	}
}

// BenchmarkManyChanges measures one change on each of 5,000 servers at once.
func BenchmarkManyChanges(b *testing.B) {
	const many = 5000
	w := newWorld(b)
	all := servers(many)
	var facts []ledger.Draft
	for _, s := range all {
		facts = append(facts,
			ledger.Free(testFact(ledger.Server, s, &serverv1.Invited{Cell: "main"})),
			ledger.Free(testFact(ledger.Server, s, &serverv1.Enrolled{})),
			ledger.Free(testFact(ledger.Server, s, &serverv1.Online{})))
	}
	w.sayAll(facts)
	img := w.image("shipper", "1.0.0")
	d, _ := w.start(Config{Concurrency: 1000})
	w.execute(nil)
	n := 0
	for b.Loop() {
		n++
		facts = facts[:0]
		for _, s := range all {
			facts = append(facts, ledger.Free(testFact(ledger.Instance, ledger.Key(s, "shipper"), &instancev1.Wanted{
				InstanceId: instanceID(s, "shipper"), Generation: uint64(n), Image: img,
			})))
		}
		w.sayAll(facts)
		w.awaitSettled(d, uint64(n), all, 1)
	}
	b.ReportMetric(float64(many*n)/b.Elapsed().Seconds(), "changes/s")
}
