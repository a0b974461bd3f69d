package scenario

// EqualViews compares every service's live view with one rebuilt in a fresh process.
func (w *World) EqualViews() {
	w.T.Helper()
	if _, err := w.Fleet.EqualViews(w.T.Context(), 1); err != nil {
		w.T.Error(err)
	}
}
