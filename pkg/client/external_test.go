package client

import (
	"fmt"
	"strings"
	"testing"

	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
)

func TestThePartsOfAReportCoverEveryNameOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 499, 500, 501, 1700} {
		var found []*externalv1.Found
		for i := range n {
			found = append(found, &externalv1.Found{Name: fmt.Sprintf("vm-%04d", (i*7919)%n)}) // in no order
		}
		next, rows := "", 0
		for q := range externalParts("vm", found, true) {
			if q.Complete.From != next {
				t.Fatalf("%d rows: a part begins at %q, the one before ended at %q", n, q.Complete.From, next)
			}
			if len(q.Found) > partFound {
				t.Errorf("%d rows in a part", len(q.Found))
			}
			for _, f := range q.Found {
				if f.Name < q.Complete.From || q.Complete.Before != "" && f.Name >= q.Complete.Before {
					t.Fatalf("%s is not in the range %v", f.Name, q.Complete)
				}
			}
			rows += len(q.Found)
			next = q.Complete.Before
		}
		if next != "" || rows != n {
			t.Errorf("%d rows: the parts hold %d and end at %q", n, rows, next)
		}
	}
}

func TestAReportThatIsNotCompleteHasNoRange(t *testing.T) {
	t.Parallel()
	for q := range externalParts("vm", []*externalv1.Found{{Name: "a"}}, false) {
		if q.Complete != nil {
			t.Errorf("the range %v would end what was not listed", q.Complete)
		}
	}
}

func TestAPartOfLargeRowsIsCutBySize(t *testing.T) {
	t.Parallel()
	var found []*externalv1.Found
	for i := range 100 {
		found = append(found, &externalv1.Found{Name: fmt.Sprintf("vm-%03d", i), Reason: strings.Repeat("x", 9000)})
	}
	parts := 0
	for q := range externalParts("vm", found, true) {
		if parts++; len(q.Found) > 40 {
			t.Errorf("a part has %d rows of 9 KB", len(q.Found))
		}
	}
	if parts < 3 {
		t.Errorf("%d parts for 900 KB", parts)
	}
}
