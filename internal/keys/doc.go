// Package keys turns a record into the hash of its ID, and into its time.
//
// An [Extractor] is compiled from key specs, one for each part of the ID:
//
//	key            the record's key
//	value          the whole value
//	header:NAME    a header, the last one where the name is repeated
//	json:a.b       a member of a JSON object; dots descend objects
//	json:/a~1b/0   an RFC 6901 JSON Pointer: any name, and array elements
//	column:7       a column of a CSV or TSV row, from 1, or by the header's name
//	sha256:value   the SHA-256 of the whole value
//	sha256:json    the SHA-256 of the value as canonical JSON
//
// # Identity
//
// Two records are the same event when all parts of their IDs are the same. A
// part is a type and bytes, and both count:
//
//   - A key, a header, a column or a whole value is its bytes.
//   - A JSON string is its decoded text, so "a" and "\u0061" are one ID. Bytes
//     that are not UTF-8 stay as they are and a lone surrogate becomes the three
//     bytes that UTF-8 would give its code point. Nothing is replaced by U+FFFD,
//     which would make one ID of many. Nothing is trimmed or folded.
//   - A JSON number is the characters of its literal. It is never a float:
//     9007199254740992 and 9007199254740993 are one float64 but two events. So 1,
//     1.0 and 1e0 are three IDs: a producer's retry repeats its own spelling, and
//     a needless second copy costs less than a lost first one.
//   - true and false are IDs. 1, "1", true and "true" are four.
//   - A SHA-256 is its 64 hexadecimal digits, in lower case.
//
// With [Options.UUID], a text or bytes that are a UUID are its 32 hexadecimal digits,
// in lower case, however it is spelled: in capitals or not, with the dashes of RFC 9562
// or without, in braces or not, behind urn:uuid: or not. All else stays as it is.
//
// There is no ID ([Missing]) where the part is absent, null or empty. A JSON
// array or object is none either ([Unsupported], a kind of missing with its own
// name so that it can be counted apart). Neither is one where the part is one of
// [Options.Ignore]: the characters of a number, the decoded text of a string, the
// bytes of what has no type. With UUIDs folded, those to ignore are folded too. One
// part missing makes the whole ID missing: what is left would match unrelated events.
//
// # JSON
//
// The scan reads the text once, whatever the number of json specs, and ends
// when it has seen the place of each; what follows is not looked at. Text that
// is malformed before that is [Invalid]. So an ID is absent only from a whole,
// well-formed text. Names match exactly, after their escapes are decoded, and
// the first of two equal names counts, at every level of a path. Depth, length
// and number of members are not bounded; time is linear in the text.
//
// A schema registry's prefix (a zero byte and four more) before the text is
// skipped. A null value, which Kafka calls a tombstone, is never parsed; neither
// is an empty one: both are missing. A byte order mark is not JSON.
//
// # Canonical JSON
//
// sha256:json hashes the text of RFC 8785: members in the order of their names, no
// spaces, one spelling for each string and number, so that values which say the same
// have one ID. [Options.Exclude] are members that are left out before. It keeps apart
// what the RFC does not:
//
//   - A number keeps its own characters where the nearest float64, written in its
//     shortest form, is another number. 9007199254740993 and 9007199254740992, or 1e400
//     and 1e500, would be one event there.
//   - Names that stand twice in an object, bytes that are not UTF-8 and lone
//     surrogates, which readers do not read alike, make the whole value [Invalid]. So
//     does nesting of more than 10,000 levels and, since members are sorted from the
//     innermost object on, of so many objects in so long a value that it would take
//     longer than about a second: 4,096 of them in 1 MiB, 204 in 20 MiB.
//
// A value with nothing in it, null, "", {} or [], is missing, also when only members
// that are left out were in it.
//
// # Rows
//
// A value is one row. CSV is that of RFC 4180, and a column its text without the
// quotes around it: quotes inside are doubled, line ends and commas stay. TSV has
// no quotes. One line end behind the row is none of it. A row that is malformed
// before the end of the last column that is asked for is [Invalid]: a quote in a
// column that does not begin with one, say, or a second row.
//
// # Hash
//
// The hash is the 64-bit xxhash of the seed and then each part as type, length
// and bytes. The lengths keep ("a", "bc") and ("ab", "c") apart. Two of n
// different IDs share a hash with a chance of about n²/2⁶⁵.
package keys
