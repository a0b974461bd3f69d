package engine

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// extend adds a field to a message that only a newer version knows.
func extend(m proto.Message) {
	field := protowire.AppendVarint(protowire.AppendTag(nil, 777, protowire.VarintType), 1)
	m.ProtoReflect().SetUnknown(field)
}

func TestAnEntryThatIsNotFullyKnownIsRefusedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		newer func(*desiredv1.Entry)
		says  string
	}{
		"a field of the entry":    {func(e *desiredv1.Entry) { extend(e) }, "unknown field 777"},
		"a field of the manifest": {func(e *desiredv1.Entry) { extend(e.Image) }, "image: unknown field 777"},
		"a field of the run": {func(e *desiredv1.Entry) {
			e.Image.Run.Sandbox = &imagev1.Sandbox{}
			extend(e.Image.Run.Sandbox)
		}, "image.run.sandbox: unknown field 777"},
		"a takeover": {func(e *desiredv1.Entry) { e.Image.Run.Takeover = 9 },
			"image.run.takeover: unknown value 9 of garrison.image.v1.Takeover"},
		"a verb":              {func(e *desiredv1.Entry) { e.Verb = 99 }, "verb: 99"},
		"another kind's verb": {func(e *desiredv1.Entry) { e.Verb = taskv1.Verb_VERB_REMOVE }, "verb: VERB_REMOVE"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
			was := r.good("cn-agent", "1.0.0").GetPid()
			task := b.want(b.image("cn-agent", "2.0.0", "ready"))
			c.newer(b.doc.Entries[0])
			other := b.want(b.image("net-agent", "1.0.0", "ready"))
			r.offer()
			outcome(t, r.wait(other), good)
			refused(t, outcome(t, r.wait(task), undone), code.ExecutorTooOld, c.says)
			if now := r.good("cn-agent", "1.0.0").GetPid(); now != was {
				t.Errorf("pid was %d and is %d", was, now)
			}
		})
	}
}

func TestARemovalThatIsNotFullyKnownRemovesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	task := b.unwant("cn-agent", instanceOf("cn-agent"))
	extend(b.doc.Removals[0])
	refused(t, outcome(t, r.do(task), taskv1.State_STATE_FAILED), code.ExecutorTooOld, "unknown field 777")
	r.good("cn-agent", "1.0.0")
}

func TestARequestThatIsNotFullyKnownIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	b.doc.Generation++
	b.doc.Requests = []*desiredv1.Request{
		{TaskId: "0197b5a0-0000-7000-8000-00000000000a"},
		{TaskId: "0197b5a0-0000-7000-8000-00000000000b"},
	}
	extend(b.doc.Requests[0])
	r.offer()
	refused(t, outcome(t, r.wait(b.doc.Requests[0].TaskId), taskv1.State_STATE_FAILED), code.ExecutorTooOld,
		"unknown field 777")
	outcome(t, r.wait(b.doc.Requests[1].TaskId), good)
}

// What a newer dispatcher says of the whole document must be such that it may be passed over.
func TestANewFieldOfTheDocumentItselfIsPassedOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	task := b.want(b.image("cn-agent", "1.0.0", "ready"))
	extend(b.doc)
	outcome(t, r.do(task), good)
}
