package view

import (
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fold"

	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// BenchmarkSnapshot encodes a large view as a snapshot does, reads it into an empty one as a start does, and measures
// both without the bus and the disk. Its loops end at once: run it with -benchtime 1x.
//
//	go test ./services/registry/internal/view -run '^$' -bench Snapshot -benchtime 1x -servers 100000
func BenchmarkSnapshot(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &stock{b: b, view: New()}
	s.fill()
	n := float64(*benchServers * *benchAgents)
	began := used(b)
	encoding, err := fold.CanonicalOf(s.view)
	if err != nil {
		b.Fatal(err)
	}
	encoded := used(b) - began
	s.view = nil
	before, now := live(), New()
	began, clock := used(b), time.Now()
	if err := fold.LoadCanonical(now, encoding); err != nil {
		b.Fatal(err)
	}
	loaded := used(b) - began
	b.ReportMetric(encoded.Seconds(), "encode-cpu-s")
	b.ReportMetric(loaded.Seconds(), "load-cpu-s")
	b.ReportMetric(time.Since(clock).Seconds(), "load-s")
	b.ReportMetric(float64(loaded.Microseconds())/n, "load-cpu-µs/instance")
	b.ReportMetric(float64(len(encoding))/1e6, "MB")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc-min(before, m.HeapAlloc))/n, "most-bytes/instance")
	b.ReportMetric(float64(live()-before)/n, "live-bytes/instance")
	runtime.KeepAlive(encoding)
	runtime.KeepAlive(now)
}

// explain reads what explaining a server asks of the registry: its record, its instances, and how they differ.
func (s *stock) explain(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	times := &times{b: b}
	for n := 0; b.Loop(); n++ {
		id := benchID("server", n*7919%*benchServers)
		times.add(func() {
			server, _ := s.view.Server(id)
			for _, i := range s.view.Instances(InstanceFilter{Server: id}, "") {
				encode(b, i)
			}
			differs, _ := drift.Of(drift.Situation{
				Server: server, Instances: s.view.InstancesOf(id), Image: s.view.Image, Now: time.Now(),
				Merged: intent.Merged(s.view, nil),
			}, drift.Scope{Servers: true, Agents: true})
			for _, d := range differs {
				encode(b, d)
			}
			encode(b, server)
		})
	}
	times.report()
}

func encode(b *testing.B, m proto.Message) {
	if _, err := proto.Marshal(m); err != nil {
		b.Fatal(err)
	}
}

// compare merges the metadata of every instance and compares each server, as a check of the whole fleet does.
func (s *stock) compare(b *testing.B) {
	for b.Loop() {
		merged := intent.Merged(s.view, nil)
		for _, server := range s.view.servers.All() {
			drift.Of(drift.Situation{
				Server: server, Instances: s.view.InstancesOf(server.Id), Image: s.view.Image, Now: time.Now(),
				Merged: merged,
			}, drift.Scope{Servers: true, Agents: true})
		}
	}
}
