package decision

import (
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

func imageFact(id string, body proto.Message) ledger.Fact {
	return ledger.Fact{Noun: ledger.Image, Key: id, Body: body}
}

// onImage drafts facts about one image, guarded by its key.
func onImage(v *view.View, id string, bodies ...proto.Message) []ledger.Draft {
	return onKey(ledger.Image, id, v.ImageSequence(id), bodies)
}

// onChannel drafts facts about one channel, guarded by its key.
func onChannel(v *view.View, name string, bodies ...proto.Message) []ledger.Draft {
	return onKey(ledger.Channel, name, v.ChannelSequence(name), bodies)
}

// onKey drafts facts about one key. Only the first is guarded: all are recorded or none.
func onKey(noun ledger.Noun, key string, sequence uint64, bodies []proto.Message) (drafts []ledger.Draft) {
	for n, b := range bodies {
		f := ledger.Fact{Noun: noun, Key: key, Body: b}
		if n == 0 {
			drafts = append(drafts, ledger.OnKey(f, sequence))
		} else {
			drafts = append(drafts, ledger.Free(f))
		}
	}
	return drafts
}

func refuse(kind fault.Kind, code, format string, args ...any) *fault.Error {
	return fault.Refusef(kind, code, format, args...).From(ledger.Catalog)
}
