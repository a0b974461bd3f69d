package engine

import (
	"testing"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

func TestAChangeThatCrashedGoesOnUnlessADocumentDoesNotWantItAnyMore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		decide   func(b *workbench, task string) // nil for a bus that is away
		notAgain bool
	}{
		{"it is wanted", func(*workbench, string) {}, false},
		{"the bus is away", nil, false},
		{"it was undone", func(b *workbench, task string) { b.doc.UnwantedTaskIds = []string{task} }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			task := b.want(b.image("cn-agent", "2.0.0", "ready"))
			b.crash("new started")
			starts := 0
			r = b.run(func(cfg *Config) {
				if cfg.HearWithin = time.Minute; c.decide == nil {
					cfg.HearWithin = time.Millisecond
				}
				cfg.FailPoint = func(p string) {
					if p == "new started" {
						starts++
					}
				}
			})
			if c.decide != nil {
				c.decide(b, task)
				b.doc.Generation++
				r.offer()
			}
			if !c.notAgain {
				outcome(t, r.wait(task), good)
				r.good("cn-agent", "2.0.0")
				return
			}
			if o := outcome(t, r.wait(task), undone); o.Code != code.NotWanted || starts > 0 {
				t.Errorf("outcome %v after %d starts, want %s before any", o, starts, code.NotWanted)
			}
			r.good("cn-agent", "1.0.0")
		})
	}
}

func TestADocumentWantsAnOpenChangeAsLongAsItAsksForTheSame(t *testing.T) {
	t.Parallel()
	rec := &change.Record{
		Agent: "a", TaskID: "task", InstanceID: "i", To: change.Manifest{Manifest: &imagev1.Manifest{Id: "new"}},
	}
	entry := func(instance, image string, configuration ...byte) *desiredv1.Document {
		return &desiredv1.Document{Entries: []*desiredv1.Entry{{
			Agent: "a", InstanceId: instance, Image: &imagev1.Manifest{Id: image}, ConfigurationDigest: configuration,
		}}}
	}
	for _, c := range []struct {
		name string
		doc  *desiredv1.Document
		want bool
	}{
		{"the same", entry("i", "new"), true},
		{"another image", entry("i", "old"), false},
		{"another configuration", entry("i", "new", 1), false},
		{"another instance", entry("j", "new"), false},
		{"a removal", &desiredv1.Document{Removals: []*desiredv1.Removal{{Agent: "a"}}}, false},
		{"nothing of the agent", &desiredv1.Document{}, true},
		{"its task is not wanted", &desiredv1.Document{UnwantedTaskIds: []string{"task"}}, false},
	} {
		if got := wants(c.doc, rec); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
