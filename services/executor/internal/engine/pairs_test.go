package engine

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func requires(agent, versions string) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) {
		m.Requires = []*imagev1.Requirement{{Agent: agent, Versions: versions}}
	}
}

func TestAgentsThatRequireOtherVersionsOfEachOtherAreRefusedFromEitherSide(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	web := b.image("web", "5.0.0", "ready", requires("db", ">=2.0.0"))
	refused(t, outcome(t, r.do(b.want(web)), taskv1.State_STATE_UNDONE), code.RequirementUnmet, "db")
	r.do(b.want(b.image("db", "1.0.0", "ready")))
	refused(t, outcome(t, r.do(b.want(web)), taskv1.State_STATE_UNDONE), code.RequirementUnmet, "1.0.0")
	r.do(b.want(b.image("db", "2.0.0", "ready")))
	outcome(t, r.do(b.want(web)), taskv1.State_STATE_SUCCEEDED)
	o := outcome(t, r.do(b.want(b.image("db", "1.5.0", "ready"))), taskv1.State_STATE_UNDONE)
	refused(t, o, code.RequirementUnmet, "web 5.0.0")
	r.good("db", "2.0.0")
}
