package steps

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

// changeOf is an open change of an agent from version 1.0.0 to another one.
func changeOf(agent, to string, requires ...*imagev1.Requirement) *change.Record {
	image := func(version string) change.Manifest {
		return change.Manifest{Manifest: &imagev1.Manifest{Id: agent + version, Agent: agent, Version: version}}
	}
	r := &change.Record{Agent: agent, From: &change.Instance{Agent: agent, Image: image("1.0.0")}, To: image(to)}
	r.To.Requires = requires
	return r
}

func TestTwoChangesAtOnceDoNotPassWhatTheyRequireOfEachOther(t *testing.T) {
	needsOld := &imagev1.Requirement{Agent: "db", Versions: "<2.0.0"}
	needsNew := &imagev1.Requirement{Agent: "db", Versions: ">=2.0.0"}
	for name, c := range map[string]struct {
		one, other *change.Record
		refused    bool
	}{
		"it requires what the other one replaces": {changeOf("web", "5.0.0", needsOld), changeOf("db", "2.0.0"), true},
		"the other one requires what it replaces": {changeOf("db", "2.0.0"), changeOf("web", "5.0.0", needsOld), true},
		"it requires what the other one brings":   {changeOf("web", "5.0.0", needsNew), changeOf("db", "2.0.0"), false},
		"they require nothing of each other":      {changeOf("web", "5.0.0"), changeOf("db", "2.0.0"), false},
		"the other one keeps its image":           {changeOf("web", "5.0.0", needsNew), changeOf("db", "1.0.0"), false},
		"only its configuration changes":          {changeOf("web", "1.0.0", needsOld), changeOf("db", "2.0.0"), false},
	} {
		err := passing(c.one, c.other)
		if c.refused != (fault.RefusalOf(err).GetCode() == code.RequirementUnmet) || !c.refused && err != nil {
			t.Errorf("%s: %v; want it refused: %v", name, err, c.refused)
		}
	}
}

func TestOfTwoChangesAtOnceTheLaterOneYields(t *testing.T) {
	first, second := changeOf("web", "5.0.0"), changeOf("db", "2.0.0")
	first.BeganAt, second.BeganAt = time.Unix(1, 0), time.Unix(2, 0)
	if yields(first, second) || !yields(second, first) {
		t.Error("the first one yields, or the second one does not")
	}
}
