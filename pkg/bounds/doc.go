// Package bounds cuts what servers and invited servers send to what may be decided on. A service calls it on every
// message right after it was decoded, so that no decision, view, log line or fact sees more than the table allows.
//
//	report := &reportv1.Report{}
//	err := bus.Unmarshal(m, report)
//	if err == nil {
//		err = bounds.Report(report)
//	}
//
// Guarantees:
//
//  1. One table holds all limits, and a field that it does not name has a default limit: a new field is bounded too.
//  2. A text is cut at the border of a character and ends with "…". The lists of a sysinfo are cut and the rest is
//     counted. Fields that the contract does not have are dropped.
//  3. A list that means something by what is absent, an overlong digest or key, a time or a size that cannot be, and a
//     malformed platform are refused: the error is Invalid.
//  4. Cutting twice changes nothing, and equal messages are cut to equal ones. So an enrolment and a report of the same
//     sysinfo do not differ.
package bounds
