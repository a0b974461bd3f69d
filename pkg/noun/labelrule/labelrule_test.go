package labelrule_test

import (
	"fmt"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/labelrule"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
)

func Example() {
	set := &labelrulev1.LabelRule{Labels: map[string]string{"platform": "smartos"}}
	r, _ := labelrule.Apply(nil, ledger.Fact{Noun: ledger.LabelRule, Key: "smartos", Body: set, Actor: "ann"})
	fmt.Println(r.Name, r.Labels, r.SetBy)
	// Output: smartos map[platform:smartos] ann
}

func TestEveryStateHasARowInTheTable(t *testing.T) {
	if err := labelrule.Life.Check(); err != nil {
		t.Error(err)
	}
}

func TestAnUnknownRuleIsNotUnset(t *testing.T) {
	f := ledger.Fact{Noun: ledger.LabelRule, Key: "smartos", Body: &labelrulev1.Unset{}}
	if _, fit := labelrule.Apply(nil, f); fit {
		t.Error("it fits")
	}
}
