package cli

// Planned is what a plan does to one thing, in a few words.
type Planned struct{ Name, Does string }

// mostMoved is how many differences between two plans are printed.
const mostMoved = 10

// SayMoved prints the first differences between a plan and a later one, and reports whether there is any.
func SayMoved(env *Env, before, now []Planned) bool {
	lines := moved(before, now)
	for _, line := range lines[:min(mostMoved, len(lines))] {
		env.Say("  %s", line)
	}
	if more := len(lines) - mostMoved; more > 0 {
		env.Say("  … and %d more", more)
	}
	return len(lines) > 0
}

// moved returns a line for each thing that a later plan treats differently.
func moved(before, now []Planned) []string {
	was := map[string]string{}
	for _, p := range before {
		was[p.Name] = p.Does
	}
	var out []string
	for _, p := range now {
		does, known := was[p.Name]
		switch {
		case !known:
			out = append(out, p.Name+": "+p.Does+", not planned before")
		case does != p.Does:
			out = append(out, p.Name+": planned "+does+", now "+p.Does)
		}
		delete(was, p.Name)
	}
	for _, p := range before {
		if does, left := was[p.Name]; left {
			out = append(out, p.Name+": planned "+does+", now nothing")
		}
	}
	return out
}
