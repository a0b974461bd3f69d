package topology

// Auditors have an account without streams. They reach the copy of the ledger over imports, so that the answer to a
// request comes back to that account, whatever reply subject it names: a refusal without a body, sent to the call that
// deletes a stream, would delete it. What a consumer pushes stays in COPY, but for the subjects of auditors.

// auditorInbox returns the prefix of an auditor's reply subjects, and of where its consumers may push facts.
func auditorInbox(name string) string { return "garrison.audit." + name }

// copyExports is what the mirror needs of CORE, and what auditors may call in COPY.
func copyExports() []Export {
	feed := Ledger + "." + copyConsumer
	out := []Export{
		call(AccountCopy, copyAPI, "CONSUMER.RESET."+feed),
		{From: AccountCore, To: AccountCopy, Subject: "$JS.FC." + feed + ".>"},
		{From: AccountCore, To: AccountCopy, Subject: copySubject, Stream: true},
		{From: AccountCopy, To: AccountAudit, Subject: auditorInbox(">"), Stream: true},
	}
	for _, c := range append(copyReads, consumerCalls(anyToken)...) {
		out = append(out, Export{
			From: AccountCopy, To: AccountAudit, Subject: CoreAPI + "." + c.call, Local: AuditAPI + "." + c.call,
			Many: c.many,
		})
	}
	for _, answer := range consumerAnswers(anyToken) {
		out = append(out, Export{From: AccountCopy, To: AccountAudit, Subject: answer})
	}
	return out
}

// apiCall is a call of JetStream, which may have several answers.
type apiCall struct {
	call string
	many bool
}

// copyReads are the calls that read the copy. A list of all consumers is left out, because it shows where those of
// other auditors push.
var copyReads = []apiCall{
	{call: "INFO"}, {call: "STREAM.NAMES"}, {call: "STREAM.LIST"}, {call: "STREAM.INFO." + Copy},
	{call: "STREAM.MSG.GET." + Copy}, {call: "DIRECT.GET." + Copy, many: true},
	{call: "DIRECT.GET." + Copy + "." + LedgerSubjects}, {call: "CONSUMER.NAMES." + Copy},
}

// consumerCalls are the calls about one consumer of the copy.
func consumerCalls(name string) []apiCall {
	of := Copy + "." + name
	return []apiCall{
		{call: "CONSUMER.CREATE." + of}, {call: "CONSUMER.CREATE." + of + ".>"}, // the second with a filter
		{call: "CONSUMER.DURABLE.CREATE." + of}, {call: "CONSUMER.INFO." + of}, {call: "CONSUMER.DELETE." + of},
		{call: "CONSUMER.RESET." + of}, {call: "CONSUMER.PAUSE." + of}, {call: "CONSUMER.UNPIN." + of},
		{call: "CONSUMER.MSG.NEXT." + of, many: true},
	}
}

// consumerAnswers are where a client acknowledges what a consumer of the copy delivered.
func consumerAnswers(name string) []string {
	of := Copy + "." + name + ".>"
	return []string{"$JS.ACK." + of, longAck + of, "$JS.FC." + of}
}

// auditorConsumers are the endings of the names of an auditor's consumers. No user's name has an upper-case letter, so
// no auditor's consumer is another one's.
var auditorConsumers = []string{"", "-A", "-B", "-C"}

// auditor returns the template of the role Auditor: the stream with the copy, and consumers of its own.
func auditor() Permissions {
	p := Permissions{Subscribe: []string{auditorInbox(ownName) + ".>"}, Payload: GuestPayload}
	calls := copyReads[:len(copyReads):len(copyReads)]
	for _, ending := range auditorConsumers {
		calls = append(calls, consumerCalls(ownName+ending)...)
		p.Publish = append(p.Publish, consumerAnswers(ownName+ending)...)
	}
	for _, c := range calls {
		p.Publish = append(p.Publish, AuditAPI+"."+c.call)
	}
	return p
}
