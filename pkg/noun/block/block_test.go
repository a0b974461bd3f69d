package block_test

import (
	"fmt"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func Example() {
	amd64 := &serverv1.Platform{Os: "linux", Arch: "amd64"}
	build := block.OfImage("web", &imagev1.Ref{Id: "i", Version: "1.1.0"}, amd64)
	set := &blockv1.Block{Build: build, Reason: "it leaks"}
	b, _ := block.Apply(nil, ledger.Fact{Noun: ledger.Block, Key: block.ID(build), Body: set, Actor: "ann"})
	fmt.Println(block.Words(b.Build), "-", b.Reason, "-", b.SetBy)
	// Output: web 1.1.0 for linux/amd64 - it leaks - ann
}

func TestEveryStateHasARowInTheTable(t *testing.T) {
	if err := block.Life.Check(); err != nil {
		t.Error(err)
	}
}

func TestALiftedBlockIsGoneAndOneThatIsThereIsNotSetAgain(t *testing.T) {
	have := &blockv1.Block{Id: "x", Reason: "first"}
	lifted := ledger.Fact{Noun: ledger.Block, Key: "x", Body: &blockv1.Lifted{}}
	if next, fit := block.Apply(have, lifted); !fit || next != nil {
		t.Errorf("lifted: have %v, %v", next, fit)
	}
	if _, fit := block.Apply(nil, lifted); fit {
		t.Error("an unknown block is lifted")
	}
	again := ledger.Fact{Noun: ledger.Block, Key: "x", Body: &blockv1.Block{Reason: "second"}}
	if next, fit := block.Apply(have, again); fit || next.Reason != "first" {
		t.Errorf("set again: have %v, %v", next, fit)
	}
}

func TestABuildIsAnImageOnAPlatformOrOneConfigurationOfAnAgent(t *testing.T) {
	amd64, arm64 := &serverv1.Platform{Os: "linux", Arch: "amd64"}, &serverv1.Platform{Os: "linux", Arch: "arm64"}
	image := func(id string) *imagev1.Ref { return &imagev1.Ref{Id: id, Digest: []byte("d")} } // the same files
	one := block.ID(block.OfImage("web", image("i1"), amd64))
	for name, c := range map[string]struct {
		build *blockv1.Build
		same  bool
	}{
		"the same image":        {block.OfImage("web", image("i1"), amd64), true},
		"another version":       {block.OfImage("web", image("i2"), amd64), false},
		"another platform":      {block.OfImage("web", image("i1"), arm64), false},
		"the digest as setting": {block.OfConfiguration("web", []byte("d")), false},
	} {
		if same := block.ID(c.build) == one; same != c.same {
			t.Errorf("%s: the same build is %v", name, same)
		}
	}
	a, b := block.OfConfiguration("web", []byte("d")), block.OfConfiguration("db", []byte("d"))
	if block.ID(a) == block.ID(b) {
		t.Error("two agents share a configuration")
	}
}
