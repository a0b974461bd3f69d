package text_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/text"
)

var files = []struct {
	name, data, want string
	err              error
}{
	{"plain", "web\n", "web\n", nil},
	{"empty", "", "", nil},
	{"short", "w", "w", nil},
	{"a mark", "\xEF\xBB\xBFweb\r\n", "web\r\n", nil},
	{"a mark alone", "\xEF\xBB\xBF", "", nil},
	{"little-endian UTF-16", "\xFF\xFEw\x00", "", text.ErrUTF16},
	{"big-endian UTF-16", "\xFE\xFF\x00w", "", text.ErrUTF16},
	{"UTF-16 without a mark", "w\x00e\x00", "", text.ErrBinary},
}

func TestAMarkIsDroppedAndWhatIsNoTextIsRefused(t *testing.T) {
	t.Parallel()
	for _, f := range files {
		if got, err := text.Plain([]byte(f.data)); string(got) != f.want || !errors.Is(err, f.err) {
			t.Errorf("%s: %q, %v; want %q, %v", f.name, got, err, f.want, f.err)
		}
		var got []byte
		in, err := text.NewReader(strings.NewReader(f.data))
		if err == nil {
			got, err = io.ReadAll(in)
		}
		if string(got) != f.want || !errors.Is(err, f.err) {
			t.Errorf("%s, by a reader: %q, %v; want %q, %v", f.name, got, err, f.want, f.err)
		}
	}
}

func TestAnErrorOfTheSourceIsReturned(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, err := text.NewReader(io.MultiReader(strings.NewReader("w"), failing{broken})); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
