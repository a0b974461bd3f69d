package display

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// A template that names a field which its fact does not have fails only when it is executed.
func TestEveryTemplateFitsItsFacts(t *testing.T) {
	known := map[string]bool{}
	for _, k := range ledger.Kinds {
		known[string(k.Noun)+" "+k.Name] = true
		whole := proto.Clone(k.Body)
		fill(whole.ProtoReflect(), 0)
		for _, body := range []proto.Message{k.Body, whole} {
			if text := FactText(ledger.Fact{Noun: k.Noun, Body: body}); strings.Contains(text, "template: ") {
				t.Error(text)
			}
		}
	}
	for fact := range templates() {
		if !known[fact] {
			t.Errorf("there is no fact %s", fact)
		}
	}
}

// fill sets the messages, lists and texts of a message, some levels deep.
func fill(m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch isMessage := f.Message() != nil; {
		case f.IsMap() || depth > 4:
		case f.IsList() && isMessage:
			e := m.Mutable(f).List().AppendMutable()
			fill(e.Message(), depth+1)
		case isMessage:
			fill(m.Mutable(f).Message(), depth+1)
		case f.Kind() == protoreflect.StringKind && !f.IsList() && f.ContainingOneof() == nil:
			m.Set(f, protoreflect.ValueOfString("text"))
		}
	}
}
