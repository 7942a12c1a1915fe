# Reads "abidiff --leaf-changes-only": prints every line that tells more than members added behind the
# last one of a struct that may grow; exits 1 if there was one.
/^(Leaf changes|Changed leaf types) summary:/ || /^$/ { next }
/^Removed\/Changed\/Added (functions|variables) summary: 0 Removed, 0 Changed, / { next }
/^'struct fn_[a-z_]+(' | at )/ {
    sub(/'$/, "", $2) # from a recorded release no place is told
    if ($2 !~ /^fn_(hdr|error|need|opt|strlist|kv|note)$/) { size = 0; next }
}
/^  type size changed from [0-9]+ to [0-9]+ / && $7 + 0 > $5 + 0 { size = $5 + 0; next }
/^  [0-9]+ data member insertions?:$/ { next }
/^    '.*', at offset [0-9]+ \(in bits\)/ {
    at = $0
    sub(/.*, at offset /, "", at)
    if (size > 0 && at + 0 >= size) { next }
}
{ print; bad = 1 }
END { exit bad }
