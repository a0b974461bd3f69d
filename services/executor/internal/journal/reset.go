package journal

import (
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// NoteReset is the note of the last ResetPosition: when it was, and which position was forgotten.
const NoteReset = "generation-reset"

// ResetPosition forgets which document was taken last, and notes that. The next document that is read is taken,
// whatever its generation.
func (t *Tx) ResetPosition(now time.Time) (was lineage.Position, err error) {
	was = t.Position()
	if err := t.SetPosition(lineage.Position{}); err != nil {
		return was, err
	}
	return was, t.SetNote(NoteReset, fmt.Sprintf("%s: forgot generation %d of epoch %d, mark %016x",
		now.UTC().Format(time.RFC3339), was.Generation, max(was.Epoch, 1), was.Mark))
}
