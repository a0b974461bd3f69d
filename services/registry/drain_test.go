package registry

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/record"
)

// A registry that stops under load answers each request that it took, with what became of it. Of the others the caller
// knows that they did nothing.
func TestAStopLeavesNoRequestInDoubt(t *testing.T) {
	t.Parallel()
	s := start(t)
	var acknowledged, refused atomic.Int64
	var callers sync.WaitGroup
	for caller := range 12 {
		callers.Go(func() {
			for n := 0; ; n++ {
				app := &applicationv1.Application{Name: fmt.Sprintf("app-%d-%d", caller, n)}
				_, err := ask[*registryv1.PutRecordResponse](s, "PutRecord", record.Create(app))
				if err == nil {
					acknowledged.Add(1)
					continue
				}
				if !bus.NotSent(err) {
					t.Errorf("%s: %v", app.GetName(), err)
				}
				refused.Add(1)
				return
			}
		})
	}
	polltest.Eventually(t, "there is a load", func() bool { return acknowledged.Load() > 50 })
	s.stop()
	callers.Wait()
	if refused.Load() != 12 {
		t.Errorf("%d callers were refused, want 12", refused.Load())
	}
	_, stop := s.registry()
	defer stop()
	kept := must[*registryv1.ListRecordsResponse](s, "ListRecords", record.List(ledger.Application)).Applications
	if page := int64(100); int64(len(kept)) < min(acknowledged.Load(), page) {
		t.Errorf("%d applications, %d were acknowledged", len(kept), acknowledged.Load())
	}
}
