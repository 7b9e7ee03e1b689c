"""Record batches of version 2: headers, validation, records, codecs, transaction markers. It imports the primitives of
libs/wire."""
