package rollouts

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

const (
	begun  = "begun"
	passed = "passed"
	agreed = "approved"
)

// gated is a running rollout of alice whose waves are in these states, and wait for approvals; "" waits.
func gated(by *rolloutv1.Strategy, waves ...string) *rolloutv1.Rollout {
	r := &rolloutv1.Rollout{Id: "r", Actor: "alice", State: rolloutv1.State_STATE_RUNNING, Strategy: by}
	for _, state := range waves {
		w := &rolloutv1.Wave{}
		switch now := timestamppb.Now(); state {
		case passed:
			w.OpenedAt, w.PassedAt = now, now
		case begun:
			w.OpenedAt = now
		case agreed:
			w.ApprovedBy = "qa"
		case begun + agreed:
			w.OpenedAt, w.ApprovedBy = now, "qa"
		}
		r.Waves = append(r.Waves, w)
	}
	return r
}

func turned(r *rolloutv1.Rollout, s rolloutv1.State, reason string) *rolloutv1.Rollout {
	r.State, r.Reason = s, &apiv1.Refusal{Code: reason}
	return r
}

// An approval that names no wave means the one that waits, so a command that is sent twice approves one wave.
func TestAnApprovalIsOfTheWaveThatWaits(t *testing.T) {
	t.Parallel()
	approvals := &rolloutv1.Strategy{Approve: true}
	halted := turned(gated(approvals, begun, ""), rolloutv1.State_STATE_HALTED, code.TooManyBroken)
	aborted := turned(gated(approvals, passed, ""), rolloutv1.State_STATE_ABORTED, "")
	notFit := code.RolloutNotFit
	for name, c := range map[string]struct {
		rollout *rolloutv1.Rollout
		wave    uint32 // that is named
		meant   uint32
		code    string // of the refusal
		already bool
	}{
		"the wave that waits":                 {gated(approvals, passed, "", ""), 0, 2, "", false},
		"one that it names":                   {gated(approvals, passed, "", ""), 2, 2, "", false},
		"one ahead that it names":             {gated(approvals, begun, "", ""), 3, 3, "", false},
		"none waits":                          {gated(approvals, begun, "", ""), 0, 0, notFit, false},
		"sent twice, ahead":                   {gated(approvals, begun, agreed, ""), 0, 2, "", true},
		"sent twice, while that is under way": {gated(approvals, passed, begun+agreed, ""), 0, 2, "", true},
		"once that passed":                    {gated(approvals, passed, passed, ""), 0, 3, "", false},
		"a wave that passed":                  {gated(approvals, passed, ""), 1, 1, notFit, false},
		"a wave that began":                   {gated(approvals, passed, begun), 2, 2, notFit, false},
		"no such wave":                        {gated(approvals, passed, ""), 9, 9, notFit, false},
		"no approvals":                        {gated(nil, begun, ""), 0, 0, notFit, false},
		"no approval of the wave":             {gated(nil, begun, ""), 2, 2, notFit, false},
		"it halted":                           {halted, 0, 0, notFit, false},
		"it is over":                          {aborted, 0, 0, notFit, false},
		"it is over, and a wave is named":     {aborted, 2, 2, notFit, false},
		"by whom it was started": {
			gated(&rolloutv1.Strategy{ApproveByOther: true}, passed, ""), 0, 2, code.ApproverStarted, false,
		},
	} {
		body, meant, err := approved(c.rollout, gate{"alice", c.wave, "because"})
		if have := fault.RefusalOf(err).GetCode(); have != c.code || meant != c.meant && c.meant > 0 && c.code == "" {
			t.Errorf("%s: %v of wave %d; want %q of wave %d", name, err, meant, c.code, c.meant)
		}
		if want := c.code == "" && !c.already; (body != nil) != want {
			t.Errorf("%s: recorded %v; want that: %v", name, body, want)
		}
	}
	_, _, err := approved(gated(approvals, begun, "", ""), gate{actor: "qa"})
	if try := fault.RefusalOf(err).GetTry(); !strings.HasSuffix(try, "approve r --wave 2") {
		t.Errorf("none waits: try %q; want the wave to approve ahead", try)
	}
}

func TestARejectionIsOfAWaveThatWaitsForAnApproval(t *testing.T) {
	t.Parallel()
	approvals := &rolloutv1.Strategy{Approve: true}
	again := turned(gated(approvals, passed, ""), rolloutv1.State_STATE_HALTED, code.WaveRejected)
	for name, c := range map[string]struct {
		rollout *rolloutv1.Rollout
		gate    gate
		code    string
		records bool
	}{
		"the wave that waits": {gated(approvals, passed, ""), gate{"qa", 2, "no"}, "", true},
		"one that has one":    {gated(approvals, passed, agreed), gate{"qa", 2, "no"}, "", true},
		"it was rejected":     {again, gate{"qa", 2, "no"}, "", false},
		"without a reason":    {gated(approvals, passed, ""), gate{"qa", 2, ""}, code.Invalid, false},
		"it began":            {gated(approvals, passed, begun), gate{"qa", 2, "no"}, code.RolloutNotFit, false},
		"it has no gate":      {gated(nil, begun, ""), gate{"qa", 2, "no"}, code.RolloutNotFit, false},
		"no such wave":        {gated(approvals, passed, ""), gate{"qa", 9, "no"}, code.RolloutNotFit, false},
		"none is left":        {gated(approvals, passed), gate{"qa", 0, "no"}, code.RolloutNotFit, false},
	} {
		body, err := rejected(c.rollout, c.gate)
		if have := fault.RefusalOf(err).GetCode(); have != c.code || (body != nil) != c.records {
			t.Errorf("%s: %v, %v; want %q", name, body, err, c.code)
		}
	}
	if have := toReject(gated(&rolloutv1.Strategy{ApproveByOther: true}, passed, agreed, "")); have != 2 {
		t.Errorf("without a number wave %d is rejected; want the next one", have)
	}
	if have := toReject(gated(nil, begun, "", "")); have != 2 {
		t.Errorf("without a gate wave %d is rejected; want the first that has not begun", have)
	}
}

func TestARequestToSteerLeadsToOneFactOrToNone(t *testing.T) {
	t.Parallel()
	paused := turned(gated(nil, passed, ""), rolloutv1.State_STATE_PAUSED, "")
	until := gated(nil, passed, "")
	until.UntilWave = 2
	type ask = registryv1.ControlRolloutRequest
	for name, c := range map[string]struct {
		rollout *rolloutv1.Rollout
		ask     *ask
		want    proto.Message
		code    string
	}{
		"pause":       {gated(nil, ""), &ask{Control: pause, Reason: "x"}, &rolloutv1.Paused{Reason: "x"}, ""},
		"pause again": {paused, &ask{Control: pause}, nil, ""},
		"resume":      {paused, &ask{Control: resume}, &rolloutv1.Resumed{}, ""},
		"resume until": {
			paused, &ask{Control: resume, UntilWave: 2}, &rolloutv1.Resumed{UntilWave: 2}, "",
		},
		"resume to nowhere":         {paused, &ask{Control: resume, UntilWave: 9}, nil, code.BadStrategy},
		"resume to what has passed": {paused, &ask{Control: resume, UntilWave: 1}, nil, code.BadStrategy},
		"resume again":              {gated(nil, ""), &ask{Control: resume}, nil, ""},
		"override": {
			until, &ask{Control: resume, Override: true}, &rolloutv1.Resumed{UntilWave: 2, Override: true}, "",
		},
		"step": {
			paused, &ask{Control: registryv1.RolloutControl_ROLLOUT_CONTROL_STEP}, &rolloutv1.Resumed{UntilWave: 2}, "",
		},
		"step again": {until, &ask{Control: registryv1.RolloutControl_ROLLOUT_CONTROL_STEP}, nil, ""},
		"abort":      {paused, &ask{Control: abort}, &rolloutv1.Aborted{}, ""},
		"approve": {
			gated(&rolloutv1.Strategy{Approve: true}, passed, ""), &ask{Control: approve},
			&rolloutv1.Approved{Wave: 2}, "",
		},
		"nothing": {paused, &ask{}, nil, code.Malformed},
	} {
		body, err := controlled(c.rollout, "alice", c.ask)
		if body == nil && c.want == nil && fault.RefusalOf(err).GetCode() == c.code {
			continue
		}
		if err != nil || c.code != "" || !proto.Equal(body, c.want) {
			t.Errorf("%s: %v, %v; want %v, %q", name, body, err, c.want, c.code)
		}
	}
}

func TestAnAnswerIsRecordedAndARepeatedOneIsNot(t *testing.T) {
	t.Parallel()
	f := running(t, 3, "web")
	id, _ := f.canaried(up(nil, taking(1), taking(1)))
	type ask = registryv1.AnswerRolloutRequest
	yes, no := registryv1.RolloutAnswer_ROLLOUT_ANSWER_APPROVE, registryv1.RolloutAnswer_ROLLOUT_ANSWER_REJECT
	for n, want := range []bool{false, true} {
		r := recordstest.Call(f.World, f.api.Answer, &ask{RolloutId: id, Answer: yes})
		if r.Wave != 2 || r.Already != want {
			t.Errorf("answer %d: wave %d, already: %v", n, r.Wave, r.Already)
		}
	}
	r := recordstest.Call(f.World, f.api.Answer, &ask{RolloutId: id, Answer: no, Reason: "the test fails"})
	if r.Wave != 2 || r.Rollout.Reason.GetCode() != code.WaveRejected || r.Rollout.Waves[1].ApprovedBy != "" ||
		!strings.Contains(r.Rollout.Reason.Message, "alice rejected wave 2: the test fails") {
		t.Errorf("after a rejection: %v", r)
	}
	if have := recordstest.Code(f.World, f.api.Answer, &ask{RolloutId: id}); have != code.Malformed {
		t.Errorf("no answer: %q", have)
	}
	f.control(id, resume)
	if f.look(); f.rollout(id).Waves[1].OpenedAt != nil {
		t.Error("the wave that was rejected began without an approval")
	}
}
