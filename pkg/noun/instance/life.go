package instance

import (
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// Existence is whether an instance exists. Where its change is, is derived; see Derive.
type Existence string

// An instance is Absent before it is wanted, and again when it is gone.
const (
	Absent  Existence = "absent"
	Present Existence = "present"
)

// Life lists which facts can happen in which state, and the state that follows. Fits adds the
// conditions on id and generation.
var Life = fsm.Table[Existence, string]{
	Absent:  {"wanted": Present},
	Present: {"wanted": Present, "unwanted": Present, "observed": Present, "adopted": Present, "gone": Absent},
}

// Fits reports whether the body of a fact fits an instance of that id and generation; an empty id
// stands for an absent instance. A fact about another instance on the same key does not fit, nor
// does one that wants an old generation.
func Fits(id string, generation uint64, body proto.Message) bool {
	switch b := body.(type) {
	case *instancev1.Wanted:
		if id == "" {
			return b.Generation > 0 && b.InstanceId != ""
		}
		return b.InstanceId == id && b.Generation > generation
	case *instancev1.Unwanted:
		return id != "" && b.InstanceId == id && b.Generation > generation
	case *instancev1.Observed:
		return id != "" && b.InstanceId == id
	case *instancev1.Gone:
		return id != "" && b.InstanceId == id
	case *instancev1.Adopted:
		return id != "" && b.InstanceId == id
	}
	return false
}
