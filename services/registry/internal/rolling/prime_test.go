package rolling_test

import (
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

func TestAsManyServersFetchAheadAsOneBatchHolds(t *testing.T) {
	v, last := view.New(), uint64(0)
	fold := func(noun ledger.Noun, key string, body proto.Message) {
		last++
		v.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(last), 0), Sequence: last})
	}
	p := &rolloutv1.Planned{Waves: []uint32{3}, Part: 1, Parts: 1, Strategy: &rolloutv1.Strategy{}}
	servers := []string{"a", "b", "c"}
	for _, s := range servers {
		fold(ledger.Server, s, &serverv1.Invited{Name: s, Cell: "main"})
		fold(ledger.Server, s, &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{}})
		target := &rolloutv1.Target{ServerId: s, Wave: 1}
		for n := range 400 {
			image := &imagev1.Ref{Id: s + strconv.Itoa(n)}
			target.Changes = append(target.Changes, &rolloutv1.Change{Agent: strconv.Itoa(n), To: image})
		}
		p.Targets = append(p.Targets, target)
	}
	fold(ledger.Rollout, "r", p)
	r, _ := v.Rollout("r")
	drafts, taken := rolling.Prime(v, rolling.Run{Rollout: r, At: time.Unix(1000, 0)}, rollout.Decision{Prime: servers})
	if len(drafts) != 800 || len(taken) != 2 || len(drafts) >= topology.MaxBatch {
		t.Errorf("%d drafts have %v fetch ahead; want 800, and the first two", len(drafts), taken)
	}
}
