package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// maxFaults bounds the faults that are listed.
const maxFaults = 64

// Faults collects what is wrong with a manifest. Its zero value is ready to use.
type Faults struct {
	list []*apiv1.Fault
	more bool // than are listed
}

// Add adds a fault of a field. A field has one fault, its first: others follow from it.
func (f *Faults) Add(field, code, format string, args ...any) {
	field = short(field)
	switch {
	case f.has(field):
	case len(f.list) == maxFaults:
		f.more = true
	default:
		f.list = append(f.list, &apiv1.Fault{Field: field, Code: code, Message: short(fmt.Sprintf(format, args...))})
	}
}

// short cuts a text that holds input, so that all faults fit into a message of the bus.
func short(text string) string {
	const most = 2 * maxText
	return strings.ToValidUTF8(text[:min(len(text), most)], "?")
}

func (f *Faults) has(field string) bool {
	return slices.ContainsFunc(f.list, func(have *apiv1.Fault) bool { return have.Field == field })
}

// Take adds a refusal as the fault of a field; nil adds nothing.
func (f *Faults) Take(field string, err error) {
	if r := fault.RefusalOf(err); r != nil {
		f.Add(field, r.Code, "%s", r.Message)
	} else if err != nil {
		f.Add(field, code.BadManifest, "%v", err)
	}
}

// Err returns a refusal of kind Invalid that lists the faults; nil without any. A single fault is the refusal.
func (f *Faults) Err() error {
	switch len(f.list) {
	case 0:
		return nil
	case 1:
		return fault.Refuse(fault.Invalid,
			&apiv1.Refusal{Code: f.list[0].Code, Message: f.list[0].Message, Faults: f.list})
	}
	count := "%d"
	if f.more {
		count = "at least %d"
	}
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{
		Code: code.BadManifest, Message: fmt.Sprintf("the image has "+count+" faults", len(f.list)), Faults: f.list,
	})
}
