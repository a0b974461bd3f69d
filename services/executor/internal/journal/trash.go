package journal

import "time"

// Trash is what a removal set aside and is still to be deleted.
type Trash struct {
	Name       string    `json:"name"` // of the directory, beside those of agents
	Agent      string    `json:"agent"`
	InstanceID string    `json:"instance_id"`
	Since      time.Time `json:"since"`
	Why        string    `json:"why,omitempty"` // why the last try did not delete it all
}

// Trash returns what is still to be deleted, by name.
func (t *Tx) Trash() ([]*Trash, error) { return list[Trash](t.tx.Bucket(bucketTrash)) }

// PutTrash writes what is to be deleted.
func (t *Tx) PutTrash(x *Trash) error { return put(t.tx.Bucket(bucketTrash), x.Name, x) }

// DropTrash forgets what was deleted.
func (t *Tx) DropTrash(name string) error { return t.tx.Bucket(bucketTrash).Delete([]byte(name)) }
