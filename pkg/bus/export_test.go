package bus

// Waiting returns how many appends wait for Run.
func (w *Writer) Waiting() int { return len(w.queue) }
