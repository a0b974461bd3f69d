package check

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
)

func TestServersThatDifferInTheSameWayShareARow(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var all []display.Difference
	for n := range 45 {
		d := &registryv1.Difference{
			ServerName: fmt.Sprintf("web-%02d", n), Cause: "SERVER_OFFLINE",
			Since: timestamppb.New(noon.Add(-time.Duration(n) * time.Minute)),
		}
		if n >= 40 {
			d.Agent, d.Cause = "beacon", "DAMAGED"
		}
		all = append(all, d)
	}
	rows, share := alike(all)
	if len(rows) != 6 || !share || rows[0].GetServerName() != "web-00 and 39 more" ||
		rows[1].GetServerName() != "web-40" || !rows[0].GetSince().AsTime().Equal(noon.Add(-39*time.Minute)) {
		t.Errorf("%v", rows)
	}
	if all[0].GetServerName() != "web-00" {
		t.Error("the answer itself was changed")
	}
	if rows, share = alike(all[36:]); len(rows) != 9 || share {
		t.Errorf("four and five servers share a row: %v", rows)
	}
}
